// A stretch of instructions without a branch, as its instrumentation records it: each execution
// appends to the thread's buffer the number of the block and one word for each value that its
// addresses are made of. All else is known when the block is translated.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "tracer/access_place.hpp"
#include "tracer/shadow_stack.hpp"

namespace pagelens {

inline constexpr std::uint16_t no_word = 0xffff;

// One operand of an instruction, or one string operation.
struct RecordedAccess {
    enum class Kind : std::uint8_t { load, store, stream_store, rep_movs, rep_stos, rep_lods };

    Kind kind = Kind::load;
    std::uint8_t bytes = 0;        // of the operand, or of an element
    std::uint16_t word = no_word;  // added to `displacement`; of a string operation the first word:
                                   // its count, then where it reads, then where it writes
    std::uint64_t displacement = 0;
    AccessPlace place;
};

struct RecordedBlock {
    std::uint32_t code = 0;  // its number among the tracer's code blocks
    std::uint16_t instructions = 0;
    std::uint16_t words = 0;           // behind the block's number
    std::uint16_t certain = 0;         // accesses, as the tracer counts them
    bool traced = false;               // false: of the interposer, or nothing is traced now
    Branch branch = Branch::none;      // its last instruction
    std::uint64_t return_address = 0;  // that it pushes, if it is a call
    RecordedAccess stack;              // of a call or return: where the return address lies
    std::vector<RecordedAccess> accesses;
    mutable std::uint32_t executions = 0;  // without code of its own; threads may lose some

    // Counts an execution; true: it was the one of this number.
    bool is_execution(std::uint64_t number) const {
        const std::atomic_ref count(executions);
        const std::uint32_t now = count.load(std::memory_order_relaxed) + 1;
        count.store(now, std::memory_order_relaxed);
        return now == number;
    }

    [[nodiscard]] static std::uint64_t address(const RecordedAccess& access,
                                               const std::uint64_t* values) {
        return access.displacement + (access.word == no_word ? 0 : values[access.word]);
    }
};

// The tracer counts operands of more than 8 bytes as so many accesses.
inline constexpr unsigned pieces(unsigned bytes) { return bytes <= 8 ? 1 : (bytes + 7) / 8; }

}  // namespace pagelens
