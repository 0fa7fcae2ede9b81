// Every core sums a block of its own over and over, as the test for snoop filter conflicts of
// https://github.com/jdmccalpin/SKX-SF-Conflicts does (125,000 doubles, 1,000,000 bytes, in an L2
// of 1 MiB): once it is there every line should stay, and a core that is slow then lost lines that
// others' addresses pushed out of the snoop filter.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "probes/isa.hpp"
#include "probes/memory.hpp"

namespace pagelens::probes {

struct L2SumResult {
    std::vector<double> seconds;  // [repeat][core]: of `sweeps` sums of its block
    std::size_t cores;
    bool ok;  // every sum was exact
};

// The core on cpus[i] sums block_bytes at i * apart_bytes of the memory, `sweeps` times in each
// repetition; all begin each repetition together. A byte is one that is read: sweeps * block_bytes
// a core and repetition.
// std::invalid_argument: a block that is empty or no multiple of 8 bytes, blocks that overlap or
// lie beyond the memory, sweeps or repeats of 0, isa, cpus.
L2SumResult l2sum(const Memory& memory, std::size_t block_bytes, std::size_t apart_bytes,
                  std::size_t sweeps, std::size_t repeats, std::span<const int> cpus, Isa isa);

}  // namespace pagelens::probes
