// What the driver is told: facts, a line each, in a file that it reads when the program has ended.
//
//   PID begun PATH                                          a program's trace will be PATH
//   PID program PATH                                        which program that is
//   PID finished ERRNO ACCESSES INSTRUCTIONS ALL_INSTRUCTIONS
//                                                           ERRNO: why the trace is cut or missing
//   PID made ACCESSES                                       so far: before a fork, after a wait
//   PID error TEXT                                          tracing cannot go on; the process ends
//   PID avx512 ADDRESS BYTES                                hexadecimal; it is about to run
//   PID line DESCRIPTOR NANOSECONDS UNFINISHED              its last write there, and how it ended
//   PID fork                                                a child that is not traced
//   PID exec PATH                                           a program that is not traced
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace pagelens {

// Appends a line to the status file `path`; nothing if that is empty. From any thread and process.
inline void report(const std::string& path, const std::string& fact) {
    if (path.empty()) return;
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return;
    std::string text = std::to_string(::getpid()) + " " + fact;
    std::replace(text.begin(), text.end(), '\n', '?');
    text += '\n';
    [[maybe_unused]] const ::ssize_t written = ::write(file, text.data(), text.size());
    ::close(file);
}

}  // namespace pagelens
