// Gives the lines of a program's ops back their order, as far as ops tell it.
//
// An op is a run of up to 64 lines of one page; while it was made, other pages were in use: a
// copy's ops are a page that is read and a page that is written, its lines one of each in turn.
// Caches whose sets bits 6..11 select do not notice; the rows of DRAM's banks and TLBs do. So ops
// are taken for the pages of *streams*, which advance together, a line each in turn. An op
// continues a stream of its kind and thread whose page is its own or a neighbour; then that page's
// lines are done. Of loops over arrays this is the order that they were in, wherever the arrays
// begin.
//
// What page_runs.hpp promises stays: of two lines with the same index that of the earlier op is
// first, and nothing passes an op that is not of lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/accesses/page_runs.hpp"
#include "core/accesses/program.hpp"

namespace pagelens {

class LineOrder final : public Cursor {
  public:
    explicit LineOrder(std::unique_ptr<Cursor> ops) : ops_(std::move(ops)) {}

    // The ops in pieces: of one line, where several streams advance.
    std::span<const Op> next() override {
        out_.clear();
        while (out_.size() < batch_ops) {
            if (batch_.empty()) batch_ = ops_->next();
            if (batch_.empty()) {
                finish();
                break;
            }
            take(batch_.front());
            batch_ = batch_.subspan(1);
        }
        return out_;
    }

  private:
    static constexpr std::size_t batch_ops = 4096;  // about

    struct Open {
        Op op;                 // `lines`: those to come
        std::uint64_t number;  // in the order of ops
    };

    void take(const Op& op) {
        if (!is_of_lines(op.kind()) || op.lines == 0) {
            finish();
            out_.push_back(op);
            return;
        }
        auto ending = std::ranges::find_if(open_, [&](const Open& other) {
            return op.page - other.op.page + 1 <= 2 && op.kind_bits == other.op.kind_bits &&
                   op.thread == other.op.thread;
        });
        if (ending == open_.end() && open_.size() == open_ops)  // the first has taken no line since
            ending = std::ranges::min_element(open_, {}, &Open::number);
        if (ending != open_.end())
            advance_until_done(static_cast<std::size_t>(ending - open_.begin()));
        // What goes on in a stream's next page has its place in the turn; what is new comes last.
        open_.insert(open_.begin() + static_cast<std::ptrdiff_t>(turn_++), {op, taken_++});
    }

    void finish() {
        while (!open_.empty()) advance_until_done(0);
    }

    // Each open op moves a line in turn, until this one has none left.
    void advance_until_done(std::size_t which) {
        if (open_.size() == 1) {
            out_.push_back(open_.front().op);
            open_.clear();
            turn_ = 0;
            return;
        }
        while (open_[which].op.lines != 0) {
            if (turn_ == open_.size()) turn_ = 0;
            advance(open_[turn_++]);
        }
        const auto is_done = [](const Open& its) { return its.op.lines == 0; };
        turn_ -= static_cast<std::size_t>(std::count_if(
            open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(turn_), is_done));
        std::erase_if(open_, is_done);
    }

    void advance(Open& its) {
        std::uint64_t before = 0;  // lines that earlier ops have left
        for (const Open& other : open_) before |= other.number < its.number ? other.op.lines : 0;
        const std::uint64_t free = its.op.lines & ~before;
        if (free == 0) return;
        const std::uint64_t line = free & (~free + 1);
        its.op.lines ^= line;
        out_.push_back(its.op);
        out_.back().lines = line;
    }

    std::unique_ptr<Cursor> ops_;
    std::span<const Op> batch_;  // what is left of it
    std::vector<Open> open_;     // a stream each, in their turn
    std::size_t turn_ = 0;       // whose it is
    std::uint64_t taken_ = 0;
    std::vector<Op> out_;
};

}  // namespace pagelens
