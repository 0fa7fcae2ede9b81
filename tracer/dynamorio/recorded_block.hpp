// A stretch of instructions without a branch, as its instrumentation records it: each execution
// appends to the thread's buffer the number of the block and one word for each value that its
// addresses are made of. All else is known when the block is translated.
//
// A block that branches to its own beginning is a *loop*. Its steady words change by a constant
// from one iteration to the next, so they are recorded once: the number of the block and the steady
// words come first, then the iterations.
// - If there are other words, each iteration is a loop word and these other words.
// - Else there is one loop word for all iterations. If one of the steady words is a register that
//   changes, its latest value is behind the loop word, and says how many iterations there were.
//   Otherwise the lower half of the loop word counts down.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/address/units.hpp"
#include "tracer/access_place.hpp"
#include "tracer/shadow_stack.hpp"

namespace pagelens {

inline constexpr std::uint16_t no_word = 0xffff;

// The upper half of a word that stands for iterations of loop `number`. No other word has such an
// upper half, because no address does. It is even, so that the lower half may count down below 0.
constexpr std::uint32_t loop_tag(std::uint64_t number) {
    return 0x8000'0000u | static_cast<std::uint32_t>(number) << 1;
}
constexpr bool is_loop_word(std::uint64_t word) { return word >> 62 == 2; }
// Of a loop word, whatever its lower half.
constexpr std::uint64_t loop_number(std::uint64_t word) { return (word << 1) >> 34; }
// A loop with more words is recorded as other blocks are.
inline constexpr std::size_t most_steady_words = 16, most_other_words = 7;
// A loop word's lower half before the first iteration. So many iterations and one more fit into it.
inline constexpr std::uint64_t iterations_limit = (std::uint64_t{1} << 16) - 1;
constexpr std::uint64_t loop_word(std::uint64_t number) {
    return std::uint64_t{loop_tag(number)} << 32 | iterations_limit;
}

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
    std::uint16_t words = 0;           // behind the block's number; of a loop with the steady ones
    std::uint16_t certain = 0;         // accesses, as the tracer counts them
    bool traced = false;               // false: of the interposer, or nothing is traced now
    Branch branch = Branch::none;      // its last instruction
    std::uint64_t return_address = 0;  // that it pushes, if it is a call
    RecordedAccess stack;              // of a call or return: where the return address lies
    std::vector<RecordedAccess> accesses;
    bool loop = false;
    std::uint64_t begin = 0;               // of a loop: the address of its first instruction
    std::vector<std::int64_t> strides;     // of a loop's steady words, which are its first ones
    std::uint16_t counter = no_word;       // the steady word whose latest value is recorded
    mutable std::uint32_t executions = 0;  // without code of its own; threads may lose some
    mutable std::uint32_t runs = 0;        // of a loop, likewise

    // Counts executions; true: the one of this number is among them.
    bool is_execution(std::uint64_t number, std::uint64_t made) const {
        const std::atomic_ref count(executions);
        const std::uint32_t before = count.load(std::memory_order_relaxed);
        count.store(static_cast<std::uint32_t>(before + made), std::memory_order_relaxed);
        return before < number && before + made >= number;
    }
    [[nodiscard]] std::size_t steady_words() const { return strides.size(); }
    // Of each iteration of a loop.
    [[nodiscard]] std::size_t other_words() const { return words - strides.size(); }
    [[nodiscard]] bool counts() const { return other_words() == 0; }
    // From a loop word on, of one iteration, or of all if the loop counts.
    [[nodiscard]] std::size_t loop_words() const {
        return 1 + other_words() + (counter == no_word ? 0 : 1);
    }

    // Counts a run of a loop.
    void count_run() const {
        const std::atomic_ref count(runs);
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // Whether a loop is left so soon that to begin and to end it costs more than it saves.
    [[nodiscard]] bool is_short() const {
        constexpr std::uint32_t worthwhile = 8;  // iterations a run
        return std::atomic_ref(executions).load(std::memory_order_relaxed) / worthwhile <
               std::atomic_ref(runs).load(std::memory_order_relaxed);
    }
    // Of a loop, whether its code leaves out iterations: it is likely that no access comes to
    // another line for several of them.
    [[nodiscard]] bool leaves_out() const {
        constexpr std::int64_t most = line_bytes / 4;
        if (!counts() || accesses.size() > 4) return false;  // one or the other soon does
        for (std::size_t i = 0; i < strides.size(); ++i)
            if (i != counter && (strides[i] < -most || strides[i] > most)) return false;
        return true;
    }

    [[nodiscard]] static std::uint64_t address(const RecordedAccess& access,
                                               const std::uint64_t* values) {
        return access.displacement + (access.word == no_word ? 0 : values[access.word]);
    }
};

// The tracer counts operands of more than 8 bytes as so many accesses.
inline constexpr unsigned pieces(unsigned bytes) { return bytes <= 8 ? 1 : (bytes + 7) / 8; }

}  // namespace pagelens
