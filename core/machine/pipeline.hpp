// How long the pipeline of one core takes for instructions that were executed one after the other.
//
// Instructions are fetched and dispatched in order, `width` of them a cycle, into a window of
// `window`; at most `scheduler` of them wait for their turn. Each waits for what it reads and for
// one of the ports that its kind can use, and leaves the window in order. So a chain of loads, each
// with its address from the one before, takes the sum of their latencies, and loads that do not
// depend on each other overlap as far as the window reaches and `outstanding` misses allow. After a
// branch that was not foreseen nothing is dispatched until it has been executed and
// `mispredict_cycles` have passed; but lines are fetched meanwhile (wrong_paths.hpp). (The pipeline
// of llvm-mca and of uiCA, with samples of a run in place of one loop: Abel, Reineke: uiCA, ICS
// 2022.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/machine/code.hpp"

namespace pagelens {

// An access of a sample, as SampledAccess, that takes longer than a hit of L1.
struct SlowAccess {
    std::uint64_t block = 0, instruction = 0;  // index in the sample's blocks, in that block
    std::uint32_t cycles = 0;                  // beyond those of a hit
};

// Ports by number, one bit each; none: what needs no port.
using Ports = std::uint64_t;
inline constexpr std::size_t port_numbers = 64;

struct PipelineShape {
    unsigned width = 4;             // instructions dispatched in a cycle
    unsigned retire_width = 4;      // and those that leave the window in one
    unsigned window = 224;          // instructions in flight
    unsigned scheduler = 97;        // of these, those that wait for operands or a port
    unsigned vector_scheduler = 0;  // those on vector registers; 0: they share the other one
    unsigned integer_results = 0;   // in flight, to general registers; 0: as many as the window has
    unsigned load_cycles = 4, vector_load_cycles = 6;
    unsigned forward_cycles =
        5;  // from a store's data to a load of them; longer for vectors, as loads
    // From an fp_add to another one that takes its result; 0: as to any other operation.
    unsigned add_to_add_cycles = 0;
    unsigned mispredict_cycles = 15;
    unsigned outstanding = 16;  // slow accesses in flight
    Ports load_ports = 0b11, vector_load_ports = 0b11;
    Ports store_ports = 0b100;  // for its address
    Ports store_data_ports = 0b1000, vector_store_data_ports = 0b1000;
    std::array<Ports, operations> ports{};          // that an operation can use
    std::array<std::uint8_t, operations> cycles{};  // its latency
    std::array<std::uint8_t, operations> every{};   // cycles from one to the next of its kind, if
                                                    // its unit is not pipelined; otherwise 1
};

// The cycles of a block if no cache close to the core holds it decoded.
struct FetchCycles {
    float steady = 0;   // when it is fetched ahead of its turn
    float restart = 0;  // more than that when the branch before it was mispredicted
};

// Cycles that the blocks [b] take in this order. `foreseen`[i] is 0 where the branch at the end of
// the i-th block was mispredicted. `fetch` is empty, or has an entry for each block of the code.
// `slow` is in the order of the blocks. The first eighth of the instructions fills the pipeline,
// and what it takes is scaled from the others.
double pipeline_cycles(const Code& code, std::span<const std::uint32_t> blocks,
                       std::span<const std::uint8_t> foreseen, std::span<const FetchCycles> fetch,
                       std::span<const SlowAccess> slow, const PipelineShape& shape);

}  // namespace pagelens
