// Stretches of a program for what needs every line in its order, beside a replay of whole page
// runs: of each phase the ops of some places, and where they lie in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/replay/excerpt.hpp"

namespace pagelens {

// Places of a phase are counted in most_lines() of the ops of one copy before them.
struct RowStretch {
    std::uint64_t begin = 0;
    std::uint64_t counted_from = ~0ull;  // what is before warms up
    std::vector<Op> ops;                 // all that move lines, one after the other
};

class RowStretches {
  public:
    // Takes a program with its lines in order. The excerpts' lines are those of one copy. Throws
    // std::invalid_argument as check() does.
    RowStretches(const Program& in_order, const std::vector<Excerpt>& excerpts);

    [[nodiscard]] std::size_t phases() const { return stretches_.size(); }
    [[nodiscard]] std::span<const RowStretch> of(unsigned phase) const { return stretches_[phase]; }
    // The sum of most_lines() over all ops of the phase.
    [[nodiscard]] std::uint64_t lines(unsigned phase) const { return lines_[phase]; }
    // The counted lines of one copy in all stretches.
    [[nodiscard]] std::uint64_t counted() const { return counted_; }
    // Returns whether the pages have the same numbers as those of another program, made from the
    // same accesses.
    [[nodiscard]] bool of_same_pages(const Program& other) const;

  private:
    std::vector<std::vector<RowStretch>> stretches_;  // [phase]
    std::vector<std::uint64_t> lines_;                // [phase]
    std::uint64_t counted_ = 0;
    std::size_t pages_;
    std::uint64_t first_page_ = 0, last_page_ = 0;
};

}  // namespace pagelens
