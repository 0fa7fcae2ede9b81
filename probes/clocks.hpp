// The clocks of a measurement, in seconds.
#pragma once

#include <algorithm>
#include <ctime>

namespace pagelens::probes {

inline double seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns the least time that reading the clock of the thread took.
inline double cpu_clock_seconds() {
    double least = 1, last = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 32; ++i) {
        const double now = seconds(CLOCK_THREAD_CPUTIME_ID);
        least = std::min(least, now - last);
        last = now;
    }
    return least;
}

}  // namespace pagelens::probes
