// Which lines threads use in turn while one of them writes.
//
// A strip hides what a thread does to a line that it has just used. Another thread may use the same
// line meanwhile; on a machine with coherent caches they then take it from each other, and none of
// that would be in the trace. So lines that are found to be shared in this way are no longer hidden
// from then on. A line counts as shared if a thread comes to it while the strip of the thread that
// used it last still holds it, and one of the two writes.
//
// Much memory is shared once and then belongs to one thread: what a parallel region was given lies
// on the stack of a thread that goes on alone. So a line is hidden again if one thread uses it
// while the one that used it before does not, although it could: it runs, or it rests. A thread
// that waits for a processor could not.
//
// The table is as small as a cache. A line takes the place of another one, which is found to be
// shared anew if it still is. In between, the trace lacks how often threads took it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pagelens {

class SharedLines {
  public:
    enum class Use : std::uint8_t { alone, met, shared };

    // After so many uses by one thread alone it is asked what the other one did meanwhile.
    static constexpr std::uint32_t uses_per_look = 4096;
    // One that rests may be about to wake, so this many uses show that the line is not its own.
    // They take some milliseconds.
    static constexpr std::uint32_t uses_beside_resting = 1 << 16;
    // A thread that executes so many instructions without using a line does not share it.
    static constexpr std::uint64_t most_instructions = 1 << 16;

    // Returns whether `use` would return `alone` and change nothing.
    [[gnu::always_inline]] [[nodiscard]] bool is_known(std::uint64_t line, unsigned thread,
                                                       bool store) const {
        const std::uint64_t known = place(line).load(std::memory_order_relaxed);
        return (known | (store ? 0 : stored)) == (entry(line, thread) | stored);
    }

    // A thread uses a line that its strip did not hide. Returns `met` if the line is found to be
    // shared by this. Of another thread, `others` says by holds(thread) whether its strip has the
    // line, by instructions(thread) how many it has executed, and by rests(thread) whether it waits
    // for others or has ended.
    template <class Others>
    Use use(std::uint64_t line, unsigned thread, bool store, const Others& others) {
        std::atomic<std::uint64_t>& at = place(line);
        const std::uint64_t known = at.load(std::memory_order_relaxed);
        const bool same = known >> line_shift == line;
        const auto last = static_cast<unsigned>(known >> thread_shift & most_thread);
        if (same && (known & shared) != 0) return use_shared(line, thread, last, others);
        std::uint64_t next = entry(line, thread) | (store ? stored : 0);
        if (same && last == thread) next |= known & stored;
        const bool meets = same && last != thread && (store || (known & stored) != 0);
        if (!meets || !others.holds(last)) {
            at.store(next, std::memory_order_relaxed);
            return Use::alone;
        }
        at.store(next | shared, std::memory_order_relaxed);
        rivals_[line % places].is(last, others.instructions(last));
        return Use::met;
    }

  private:
    // Who used a shared line before the thread that uses it now. Threads may change it at once.
    struct Rival {
        std::atomic<unsigned> thread;
        std::atomic<std::uint32_t> uses;  // by the other thread since
        std::atomic<std::uint64_t> instructions;

        void is(unsigned of_thread, std::uint64_t executed) {
            thread.store(of_thread, std::memory_order_relaxed);
            instructions.store(executed, std::memory_order_relaxed);
            uses.store(0, std::memory_order_relaxed);
        }
    };

    template <class Others>
    Use use_shared(std::uint64_t line, unsigned thread, unsigned last, const Others& others) {
        Rival& rival = rivals_[line % places];
        if (thread != last) {
            place(line).store(entry(line, thread) | stored | shared, std::memory_order_relaxed);
            rival.is(last, others.instructions(last));
            return Use::shared;
        }
        const std::uint32_t uses = rival.uses.load(std::memory_order_relaxed) + 1;
        rival.uses.store(uses, std::memory_order_relaxed);
        if (uses % uses_per_look != 0) return Use::shared;
        const unsigned other = rival.thread.load(std::memory_order_relaxed);
        const std::uint64_t before = rival.instructions.load(std::memory_order_relaxed);
        const bool shares = others.rests(other)
                                ? uses < uses_beside_resting
                                : others.instructions(other) - before < most_instructions;
        if (shares) return Use::shared;
        place(line).store(entry(line, thread) | stored, std::memory_order_relaxed);
        return Use::alone;
    }

    static constexpr std::size_t places = std::size_t{1} << 16;
    static constexpr std::uint64_t stored = 1, shared = 2;
    static constexpr unsigned thread_shift = 2, line_shift = 16;
    static constexpr std::uint64_t most_thread = (1u << (line_shift - thread_shift)) - 1;

    static std::uint64_t entry(std::uint64_t line, unsigned thread) {
        return line << line_shift | std::uint64_t{thread} << thread_shift;
    }
    // Neighbouring lines have neighbouring places, so threads that use memory of their own use
    // lines of the table of their own.
    std::atomic<std::uint64_t>& place(std::uint64_t line) { return table_[line % places]; }
    [[nodiscard]] const std::atomic<std::uint64_t>& place(std::uint64_t line) const {
        return table_[line % places];
    }

    std::array<std::atomic<std::uint64_t>, places> table_{};
    std::array<Rival, places> rivals_{};  // of lines that are shared
};

}  // namespace pagelens
