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
#include <vector>

namespace pagelens {

inline constexpr unsigned code_registers =
    128;  // of the program, numbered by who decodes it; 0: none

inline constexpr std::uint8_t last_general = 16;  // 1 to this are the general registers

// The sources of a value beside a register.
inline constexpr std::uint8_t nothing = 127;  // it is the constant itself
inline constexpr std::uint8_t loaded = 126;   // the whole of what it loads

// What an instruction does beside its load and its store.
enum class Operation : std::uint8_t {
    none,  // nothing, or a copy of a register
    integer,
    select,  // a general register by flags
    shift,
    multiply,
    divide,       // up to 32 bits
    long_divide,  // 64 bits
    branch,
    fp_add,
    fp_multiply,
    fused,  // multiplication and addition
    fp_divide,
    root,
    fp_compare,  // to flags
    vector,
    vector_shift,
    vector_multiply,
    shuffle,
    cross_lane,
    convert,
    crossing,  // from general to vector registers or back
    slow,      // what takes microcode
    count
};
inline constexpr std::size_t operations = static_cast<std::size_t>(Operation::count);

// The kind of data that a load or a store moves.
enum class Access : std::uint8_t {
    none,
    integer,  // to or from a general register
    vector,   // a vector register
};

enum class BranchKind : std::uint8_t { none, conditional, indirect, other };

// An instruction as it was decoded.
struct CodeInstruction {
    Operation operation = Operation::none;
    std::uint8_t slots = 1;  // of the dispatch; 0: fused with the next
    Access load = Access::none, store = Access::none;
    BranchKind branch = BranchKind::none;
    std::array<std::uint8_t, 2> address{};  // registers that its address is made of
    std::array<std::uint8_t, 4> sources{};  // others that it reads
    std::array<std::uint8_t, 3> results{};
    // The value of results[0], or of what is stored, is this register + `constant`; 0: none is
    // known.
    std::uint8_t origin = 0;
    std::int64_t constant = 0;
    std::int64_t displacement = 0;
    std::uint8_t scale = 0;
};

// Blocks of instructions, each [begin[b], begin[b + 1]) of `instructions`.
struct Code {
    std::vector<CodeInstruction> instructions;
    std::vector<std::size_t> begin;
    std::vector<std::uint64_t> address, bytes;  // of each block

    [[nodiscard]] std::span<const CodeInstruction> block(std::size_t b) const {
        return std::span(instructions).subspan(begin[b], begin[b + 1] - begin[b]);
    }
};

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
