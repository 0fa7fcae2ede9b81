// Declared loops as a program: where its arrays lie, which part of a walk is whose, and how long it
// is.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/sweeps.hpp"

namespace pagelens {

// The lines of a walk with a stride that lie in one page. The k-th line of the walk is line floor(k
// * stride). After so many pages the pattern repeats.
inline constexpr std::uint64_t pattern_pages = 256;
using Pattern = std::array<std::uint64_t, pattern_pages>;

inline std::uint64_t strided_lines(std::uint64_t page, double stride) {
    const double first = static_cast<double>(page * lines_per_page);
    std::uint64_t lines = 0;
    for (double k = std::ceil(first / stride);; ++k) {
        const double line = std::floor(k * stride) - first;
        if (line >= lines_per_page) return lines;
        if (line >= 0) lines |= std::uint64_t{1} << static_cast<unsigned>(line);
    }
}

inline std::unique_ptr<Pattern> pattern_of(const SweepStream& stream) {
    if (stream.stride == 1) return nullptr;
    auto pattern = std::make_unique<Pattern>();
    for (std::uint64_t page = 0; page < pattern_pages; ++page)
        (*pattern)[page] = strided_lines(page, stream.stride);
    return pattern;
}

class SweepProgram final : public Program {
  public:
    explicit SweepProgram(SweepLoops loops) : loops_(std::move(loops)) {
        std::uint64_t pages = 0;
        for (const std::uint64_t n : loops_.array_pages) {
            first_page_.push_back(pages);
            pages += n;
        }
        pages_.reserve(pages);
        for (std::uint64_t p = 0; p < pages; ++p) pages_.push_back(loops_.padding(VirtualPage(p)));
        for (const Sweep& sweep : loops_.sweeps) {
            auto& of_sweep = patterns_.emplace_back();
            for (const SweepStream& s : sweep.streams) of_sweep.push_back(pattern_of(s));
        }
        count_instructions();
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override;
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return pages_; }
    [[nodiscard]] unsigned objects() const override {
        return static_cast<unsigned>(loops_.array_pages.size()) + 1;
    }
    [[nodiscard]] unsigned phases() const override {
        return static_cast<unsigned>(loops_.phase_repeats.size());
    }
    [[nodiscard]] unsigned threads() const override { return loops_.threads; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instructions_;
    }

    [[nodiscard]] const SweepLoops& loops() const { return loops_; }
    [[nodiscard]] std::uint64_t first_page(unsigned array) const { return first_page_[array]; }

    // The lines that a stream moves of the pages of its array; null: all.
    [[nodiscard]] const Pattern* pattern(std::size_t sweep, unsigned stream) const {
        return patterns_[sweep][stream].get();
    }

    // Pages of a stream, over all threads.
    [[nodiscard]] std::uint64_t walked(const SweepStream& s) const {
        return s.pages != 0 ? s.pages : loops_.array_pages[s.array];
    }

    // The part of a stream that is a thread's: pages [begin, end) of the walk.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> part(const SweepStream& s,
                                                               unsigned thread) const {
        const std::uint64_t n = walked(s);
        if (s.walk == Walk::shared) return {0, n};
        if (s.walk == Walk::serial) return {0, thread == 0 ? n : 0};
        return {n * thread / loops_.threads, n * (thread + 1) / loops_.threads};
    }

    // Returns the visits of about all turns of the run.
    [[nodiscard]] std::uint64_t visits() const {
        std::uint64_t visits = 0;
        for (const Sweep& sweep : loops_.sweeps)
            visits += loops_.phase_repeats[sweep.phase] * visits_of_turn(sweep) * turns(sweep);
        return visits;
    }
    // Returns about how often one turn of a sweep visits a page.
    [[nodiscard]] static std::uint64_t visits_of_turn(const Sweep& sweep) {
        std::uint64_t visits = 0;
        for (const SweepStream& s : sweep.streams)
            visits += 1u + (s.kind == StreamKind::write ? 1 : 0) + (sweep.first_touch ? 1 : 0);
        return visits;
    }

    // Turns of a sweep: pages of the longest part of any thread.
    [[nodiscard]] std::uint64_t turns(const Sweep& sweep) const {
        std::uint64_t most = 0;
        for (const SweepStream& s : sweep.streams) {
            const std::uint64_t n = walked(s);
            most = std::max(most, is_whole(s.walk) ? n : n / loops_.threads + 1);
        }
        return most;
    }

  private:
    // Whether a thread that walks at all walks the whole array.
    [[nodiscard]] static bool is_whole(Walk walk) {
        return walk == Walk::shared || walk == Walk::serial;
    }
    void count_instructions() {
        instructions_.assign(std::size_t{phases()} * threads(), 0);
        for (const Sweep& sweep : loops_.sweeps) {
            double longest = 0;  // of a thread's
            bool parallel = false;
            for (const SweepStream& s : sweep.streams) {
                const auto pages = static_cast<double>(walked(s));
                longest = std::max(longest, is_whole(s.walk) ? pages : pages / threads());
                parallel |= s.walk != Walk::serial;
            }
            const double lines = longest * lines_per_page;
            const double repeats = loops_.phase_repeats[sweep.phase];
            for (unsigned t = 0; t < (parallel ? threads() : 1); ++t) {
                instructions_[std::size_t{sweep.phase} * threads() + t] +=
                    static_cast<std::uint64_t>(lines * sweep.instructions_per_line * repeats);
            }
        }
    }

    SweepLoops loops_;
    std::vector<std::uint64_t> first_page_;
    std::vector<VirtualPage> pages_;
    std::vector<std::vector<std::unique_ptr<Pattern>>> patterns_;  // [sweep][stream]
    std::vector<std::uint64_t> instructions_;
};

}  // namespace pagelens
