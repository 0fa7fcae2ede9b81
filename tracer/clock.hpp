// The time of day, which all traced processes of a machine and the stamps of its files share.
#pragma once

#include <time.h>

#include <cstdint>

namespace pagelens {

// Nanoseconds since 1970.
inline std::uint64_t time_of_day() {
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace pagelens
