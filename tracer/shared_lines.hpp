// Which lines threads use in turn while one of them writes.
//
// A strip hides what a thread does to a line that it has just used. Another thread may use the same
// line meanwhile; on a machine with coherent caches they then take it from each other, and none of
// that would be in the trace. So lines that are found to be shared in this way are no longer hidden
// from then on. A line counts as shared if a thread comes to it while the strip of the thread that
// used it last still holds it, and one of the two writes.
//
// The table is as small as a cache. A line that finds another one in its place may stay unknown,
// and then takes of it are missing in the trace.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pagelens {

class SharedLines {
  public:
    enum class Use : std::uint8_t { alone, met, shared };

    // Returns whether `use` would return `alone` and change nothing.
    [[gnu::always_inline]] [[nodiscard]] bool is_known(std::uint64_t line, unsigned thread,
                                                       bool store) const {
        const std::uint64_t known = place(line).load(std::memory_order_relaxed);
        return (known | (store ? 0 : stored)) == (entry(line, thread) | stored);
    }

    // A thread uses a line that its strip did not hide. Returns `met` if the line is found to be
    // shared by this. `holds(thread)` says whether another thread's strip has the line.
    template <class Holds>
    Use use(std::uint64_t line, unsigned thread, bool store, Holds&& holds) {
        std::atomic<std::uint64_t>& at = place(line);
        const std::uint64_t known = at.load(std::memory_order_relaxed);
        const bool same = known >> line_shift == line;
        if ((known & shared) != 0) return same ? Use::shared : Use::alone;
        const auto last = static_cast<unsigned>(known >> thread_shift & most_thread);
        std::uint64_t next = entry(line, thread) | (store ? stored : 0);
        if (same && last == thread) next |= known & stored;
        const bool meets = same && last != thread && (store || (known & stored) != 0);
        if (!meets || !holds(last)) {
            at.store(next, std::memory_order_relaxed);
            return Use::alone;
        }
        at.store(next | shared, std::memory_order_relaxed);
        return Use::met;
    }

  private:
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
};

}  // namespace pagelens
