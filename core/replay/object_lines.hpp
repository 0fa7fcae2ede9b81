// Counts what the objects of a program ask of whatever lies below its private caches.
#pragma once

#include <cstdint>
#include <vector>

#include "core/accesses/program.hpp"

namespace pagelens {

// Lines of one copy of the program.
struct ObjectLines {
    // [phase * objects + object] that the kernel clears when it hands out a page, with the object
    // that the page was first written for.
    std::vector<std::uint64_t> cleared;
    std::vector<std::uint64_t> used;  // [object] fetched, or stored past the caches
    // [object] of these, within two lines of one of the four places where the thread used the
    // object last: what a prefetcher would have fetched before. Exact for programs with lines in
    // order.
    std::vector<std::uint64_t> in_sequence;
    std::vector<std::uint32_t> threads;  // [object] that used it
};

// `touched`: lines that are touched are what was used, instead of those that moved: in a program of
// which lines are sampled (LineSample) they are all those of a stretch.
ObjectLines lines_by_object(const Program& program, bool touched = false);

}  // namespace pagelens
