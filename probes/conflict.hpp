// Two streams at a chosen distance, line by line in turn: what they have in common (a set, a bank,
// a page translation) shows as time.
#pragma once

#include <cstddef>
#include <vector>

#include "probes/memory.hpp"

namespace pagelens::probes {

enum class ConflictKind {
    read,   // both
    write,  // both
    copy    // the first into the second
};

struct ConflictResult {
    std::vector<double> seconds;  // of each repetition
    bool ok;
};

// Streams through `bytes` at first_offset and `bytes` at second_offset of the memory, one line of
// each in turn, by 16-byte instructions and plain stores. A byte is one that is read or written: 2
// * bytes a repetition, what a store reads before it writes not counted. std::invalid_argument:
// bytes that are 0 or no whole lines, ranges that overlap, do not begin at a line or lie beyond the
// memory, repeats of 0, cpu.
ConflictResult conflict(const Memory& memory, std::size_t first_offset, std::size_t second_offset,
                        std::size_t bytes, ConflictKind kind, std::size_t repeats, int cpu);

}  // namespace pagelens::probes
