// The clock of all measurements: CLOCK_MONOTONIC_RAW, which no time service bends.
#pragma once

#include <time.h>

#include <cstdint>

namespace pagelens::probes {

// Nanoseconds since some moment in the past.
inline std::int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The shortest time, in seconds, by which two readings in a row were seen to differ.
inline double timer_resolution() {
    std::int64_t shortest = 1'000'000'000;
    for (int reading = 0; reading < 1000; ++reading) {
        const std::int64_t before = now_ns();
        std::int64_t after = before;
        while (after == before) after = now_ns();
        if (after - before < shortest) shortest = after - before;
    }
    return static_cast<double>(shortest) * 1e-9;
}

}  // namespace pagelens::probes
