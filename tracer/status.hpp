// What the driver is told: facts, a line each, in a file that it reads when the program has ended.
// A line is PID NANOSECONDS FACT, with the time of day, and one of these facts:
//
//   begun PARENT PATH                                       a program's trace will be PATH
//   program PATH                                            which program that is
//   finished ERRNO ACCESSES INSTRUCTIONS ALL_INSTRUCTIONS
//                                                           ERRNO: why the trace is cut or missing
//   made ACCESSES                                       so far: before a fork, after a wait
//   error TEXT                                          tracing cannot go on; the process ends
//   avx512 ADDRESS BYTES                                hexadecimal; it is about to run
//   line DESCRIPTOR NANOSECONDS UNFINISHED              its last write there, and how it ended
//   fork                                                a child that is not traced
//   exec PATH                                           a program that is not traced
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "tracer/clock.hpp"

namespace pagelens {

// Appends a line to the status file `path`; nothing if that is empty. From any thread and process.
inline void report(const std::string& path, const std::string& fact) {
    if (path.empty()) return;
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return;
    std::string text =
        std::to_string(::getpid()) + " " + std::to_string(time_of_day()) + " " + fact;
    std::replace(text.begin(), text.end(), '\n', '?');
    text += '\n';
    [[maybe_unused]] const ::ssize_t written = ::write(file, text.data(), text.size());
    ::close(file);
}

}  // namespace pagelens
