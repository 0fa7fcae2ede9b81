// Merges single lines into ops of up to 64 lines of one page, so that a replay does a page at once.
//
// The rule: an open op may take line index i only if no later op contains i. Then of two lines with
// the same index (the same address bits 6..11) the earlier is never put behind the later, and a
// cache whose set index contains these bits meets the lines of each set in their order: its counts
// are exact. Lines of different indices may change places, within the window. What needs to know
// which page follows which (TLBs, rows of DRAM) is served by lines in order: then only ascending
// lines of a page that follow each other are merged.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/accesses/op.hpp"
#include "core/address/units.hpp"

namespace pagelens {

inline constexpr std::size_t open_ops = 64;  // only the latest ops take more lines

enum class LineOrder : std::uint8_t { by_set, all };  // what the merged ops keep

// `Ops` is a sequence with push_back(Op), size() and operator[].
template <class Ops>
class PageRuns {
  public:
    explicit PageRuns(Ops& ops, LineOrder order = LineOrder::by_set)
        : ops_(ops), window_(order == LineOrder::all ? 1 : open_ops), order_(order) {
        hints_.fill(0);
    }

    // Adds one line, with its `index` within its page.
    void line(OpKind kind, std::uint32_t page, unsigned index, std::uint16_t object,
              unsigned thread) {
        const std::uint64_t bit = std::uint64_t{1} << index;
        std::size_t& hint = hints_[hash(kind, page, thread)];
        if (hint + window_ >= ops_.size() && hint >= first_open_ && hint < ops_.size() &&
            (last_with_[index] <= hint)) {
            Op& op = ops_[hint];
            if (op.page == page && op.object == object && op.thread == thread &&
                op.kind() == kind &&
                (order_ == LineOrder::all ? op.lines < bit : (op.lines & bit) == 0)) {
                op.lines |= bit;
                last_with_[index] = hint;
                return;
            }
        }
        hint = ops_.size();
        last_with_[index] = hint;
        ops_.push_back(make_op(kind, page, bit, object, thread));
    }

    // Adds an op that is not of lines: everything before stays before it.
    void barrier(const Op& op) {
        ops_.push_back(op);
        first_open_ = ops_.size();
    }

  private:
    static std::size_t hash(OpKind kind, std::uint32_t page, unsigned thread) {
        const std::uint64_t key =
            (std::uint64_t{page} * 16 + static_cast<unsigned>(kind)) * 4096 + thread;
        return (key * 0x9e3779b97f4a7c15u) >> 56;
    }

    Ops& ops_;
    std::size_t window_;
    LineOrder order_;
    std::array<std::size_t, 256> hints_;  // where the latest op of a page and kind may be
    std::array<std::size_t, lines_per_page> last_with_{};  // the latest op that contains this index
    std::size_t first_open_ = 0;
};

}  // namespace pagelens
