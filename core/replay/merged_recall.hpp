// The same recalled lines in fewer ops: lines of a page share an op where no cache can tell.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// Lines at different places of their pages share no set of a cache that has 64 sets or more. So a
// line may join an earlier op, unless a later op has a line at the same place.
class MergedRecall {
  public:
    // For a program of so many pages.
    explicit MergedRecall(std::size_t pages) : of_page_(pages) {}

    // Precondition: no line of the op has come since the last move_to().
    void add(const Op& op) {
        std::uint32_t& number = of_page_[op.page];
        if (number != 0 && may_join(op, number)) {
            ops_[number - 1].lines |= op.lines;
        } else {
            ops_.push_back(op);
            number = static_cast<std::uint32_t>(ops_.size());
        }
        for (std::uint64_t rest = op.lines; rest != 0; rest &= rest - 1)
            last_[static_cast<unsigned>(std::countr_zero(rest))] = number;
    }
    // Appends the ops to `ops`, and has none from now on.
    void move_to(std::vector<Op>& ops) {
        ops.insert(ops.end(), ops_.begin(), ops_.end());
        for (const Op& op : ops_) of_page_[op.page] = 0;
        ops_.clear();
        last_.fill(0);
    }

  private:
    [[nodiscard]] bool may_join(const Op& op, std::uint32_t number) const {
        const Op& its = ops_[number - 1];
        if (its.kind() != op.kind() || its.thread != op.thread || its.object != op.object)
            return false;
        for (std::uint64_t rest = op.lines; rest != 0; rest &= rest - 1) {
            if (last_[static_cast<unsigned>(std::countr_zero(rest))] > number) return false;
        }
        return true;
    }

    // Ops have numbers from 1 on.
    std::vector<Op> ops_;
    std::vector<std::uint32_t> of_page_;                // the last one of the page, or 0
    std::array<std::uint32_t, lines_per_page> last_{};  // [place] the last one with a line there
};

}  // namespace pagelens
