// STREAM's four kernels (J. D. McCalpin, https://www.cs.virginia.edu/stream/), each repeated alone.
//
// A byte is one that the program reads or writes: 16 an element for copy and scale, 24 for add and
// triad. What a plain store reads before it writes (write allocate) is not counted, as in STREAM.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "probes/isa.hpp"
#include "probes/memory.hpp"

namespace pagelens::probes {

enum class StreamKernel {
    copy,   // c = a
    scale,  // b = 3 c
    add,    // c = a + b
    triad   // a = b + 3 c
};

enum class Stores { plain, nontemporal };

enum class Order {
    in_turn,  // each thread from its first element to its last, as STREAM
    spread    // each thread at four places of its share in turn, which is faster from memory
};

// The faster kind for arrays of `n` doubles: past the caches (nontemporal) where the two or three
// arrays of the kernel are larger than the last-level caches of the processors together.
Stores better_stores(StreamKernel kernel, std::size_t n, std::span<const int> cpus);

// Bytes of an element.
std::size_t stream_bytes(StreamKernel kernel);

struct StreamResult {
    std::vector<double> seconds;  // of each repetition, the slowest thread's
    double error;                 // largest relative error of an element of the answer
};

// Runs the kernel over arrays a, b and c of n doubles at 0, d and 2 d bytes of the memory, d = 8 n
// + offset_bytes (8 times STREAM's OFFSET). Pages and lines are in the caches as the repetition
// before left them; STREAM leaves the first one out. std::invalid_argument: n or repeats of 0,
// arrays beyond the memory, an offset that is no multiple of 8, instructions that this processor
// lacks, cpus (as run_pinned).
StreamResult stream(const Memory& memory, StreamKernel kernel, std::size_t n,
                    std::size_t offset_bytes, std::size_t repeats, std::span<const int> cpus,
                    Isa isa, Stores stores, Order order);

}  // namespace pagelens::probes
