// Who touches a program's pages first, and who uses them afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/accesses/program.hpp"

namespace pagelens {

struct FirstTouch {
    // [page] the thread that moves most of its lines from the moment on when a thread other than
    // its first one uses it: the majority's, if there is one (Boyer and Moore's vote). The first
    // thread, if no other one ever does.
    std::vector<std::uint16_t> user;
    std::vector<std::uint16_t> object;  // [page] that it was first touched for
    // [object] lines that threads move of pages that a thread on another NUMA node touched first.
    std::vector<std::uint64_t> far_lines;
    std::uint64_t lines = 0;  // that threads move of all pages
};

// `node_of_thread` is of one copy of the program. Precondition: it has an entry for each thread.
FirstTouch first_touch(const Program& program, std::span<const std::uint8_t> node_of_thread);

}  // namespace pagelens
