// Instructions of a program as they were decoded, as far as a core's time depends on them.
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

}  // namespace pagelens
