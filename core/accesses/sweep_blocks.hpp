// A walk through declared sweeps, some turns at a time, which makes the ops of those pages alone
// that are asked for. A replay of a sample needs one page in 64. To make and to pass over the ops
// of all others takes longer than to replay.
//
// Where in a sweep a page is visited follows from its number. So the frames of a block of turns can
// be handed out first, and then it is known which pages are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/accesses/page_set.hpp"
#include "core/accesses/program.hpp"

namespace pagelens {

class SweepProgram;
struct Sweep;

class SweepBlocks {
  public:
    // Returns null if the program is not one of declared sweeps, draws pages at random, has its
    // lines in order, or uses pages before it maps them.
    static std::unique_ptr<SweepBlocks> of(const Program& program);

    // Goes on to the next block; returns false after the last one. before() has the ops between:
    // phases that begin, pages that are given back.
    bool next();
    [[nodiscard]] std::span<const Op> before() const { return before_; }

    // What follows is about the block. Returns the lines that it moves of each object.
    [[nodiscard]] std::span<const std::uint64_t> lines() const { return lines_; }
    // Returns the sum of the lines that it moves, and of those of pages that it may map.
    [[nodiscard]] std::uint64_t most_lines() const { return most_lines_; }
    // Returns the pages of its map_write ops, in their order. Call it once.
    [[nodiscard]] std::span<const std::uint32_t> maps();
    // Returns the ops of the `wanted` pages, in their order.
    [[nodiscard]] std::span<const Op> of(const PageSet& wanted);
    // Calls visit(moment, kind, page, lines) for all ops, in any order; `lines` is that of the op.
    // Moments are those of the ops' order, below moments().
    template <class Visit>
    void for_all(Visit&& visit) const;
    [[nodiscard]] std::uint64_t moments() const { return block_turns * moments_of_turn(); }
    // Returns the moments of all blocks of the program.
    [[nodiscard]] std::uint64_t moments_of_all() const { return moments_of_all_; }
    // Returns about which share of the ops comes before the block.
    [[nodiscard]] float done() const;

  private:
    static constexpr std::uint64_t block_turns = 64;

    explicit SweepBlocks(const SweepProgram& program);

    // One thread's way through its part of a stream. It comes to page `at` of the part's `pages` in
    // turn ceil(at * turns / pages), and to its end in the last turn.
    struct Way {
        std::uint64_t pages;         // at least 1
        std::uint64_t first;         // page of the program, as if the walk did not leave its array
        std::uint64_t begin, end;    // the pages of the part that lie in the array
        const std::uint64_t* lines;  // by page of the array, repeated; null: all
        std::uint64_t array_page;    // page of the array that the part begins at
        OpKind kind;
        bool is_written;
        std::uint16_t object;
        unsigned thread;
        // The pages that the way comes to in the block: [from, to). Its end counts as a page here,
        // because coming there writes the last one back.
        std::uint64_t from = 0, to = 0;
        std::uint64_t next_turn = 0, early = 0, mapped = 0;  // where maps() is

        [[nodiscard]] std::uint64_t lines_at(std::uint64_t at) const;
    };
    // Pages of a part.
    struct Pages {
        std::uint64_t begin, end;
    };
    // The pages that a way fetches or stores to in the block, and those that it writes back.
    [[nodiscard]] static Pages visited(const Way& way);
    [[nodiscard]] static Pages written_back(const Way& way);

    void start(const Sweep& sweep, std::size_t number);
    void make_block();
    template <class Visit>
    void for_wanted(const PageSet& wanted, const Way& way, Pages pages, Visit&& visit) const;
    template <class Visit>
    void for_turns(const Way& way, Pages pages, std::uint64_t later, Visit&& visit) const;
    void put(std::uint64_t turn, const Op& op);
    void put_in_order();
    [[nodiscard]] std::uint64_t turn_of(const Way& way, std::uint64_t at) const {
        return way.pages == turns_ ? at : (at * turns_ + way.pages - 1) / way.pages;
    }
    // A way writes back, maps and moves lines in a turn, each at most once.
    [[nodiscard]] std::uint64_t moments_of_turn() const { return 3 * ways_.size(); }

    const SweepProgram& program_;
    unsigned phase_ = ~0u, round_ = 0;
    std::size_t phase_begin_ = 0, phase_end_ = 0, sweep_ = 0;
    bool in_sweep_ = false, maps_ = false;
    std::uint64_t turns_ = 0, turn_ = 0, end_turn_ = 0;  // of the sweep, and of the block
    std::uint64_t turns_before_ = 0, turns_of_all_ = 0, moments_of_all_ = 0;
    std::vector<Way> ways_;  // thread by thread, stream by stream
    std::vector<Op> before_;
    std::vector<std::uint64_t> lines_;
    std::uint64_t most_lines_ = 0;
    std::vector<std::uint32_t> pages_;
    // The ops of a block, way by way and then turn by turn.
    std::vector<Op> by_way_, by_turn_;
    std::vector<std::uint8_t> turn_of_;
};

// Calls visit(turn since the block began, page of the part) for pages of a way, whose op comes when
// the way has gone `later` pages further.
template <class Visit>
void SweepBlocks::for_turns(const Way& way, Pages pages, std::uint64_t later, Visit&& visit) const {
    if (pages.begin >= pages.end) return;
    // turn * way.pages + rest == (at + later) * turns + way.pages - 1
    const std::uint64_t first = (pages.begin + later) * turns_ + way.pages - 1;
    std::uint64_t turn = first / way.pages - turn_, rest = first % way.pages;
    const std::uint64_t whole = turns_ / way.pages, part = turns_ % way.pages;
    for (std::uint64_t at = pages.begin; at < pages.end; ++at) {
        visit(turn, at);
        rest += part;
        const bool carries = rest >= way.pages;
        turn += whole + (carries ? 1 : 0);
        rest -= carries ? way.pages : 0;
    }
}

template <class Visit>
void SweepBlocks::for_all(Visit&& visit) const {
    const std::uint64_t of_turn = moments_of_turn();
    for (std::size_t number = 0; number < ways_.size(); ++number) {
        const Way& way = ways_[number];
        const auto page_of = [&](std::uint64_t at) {
            return static_cast<std::uint32_t>(way.first + at);
        };
        const auto moment = [&](std::uint64_t turn) {
            return static_cast<std::uint32_t>(turn * of_turn + 3 * number);
        };
        for_turns(way, written_back(way), 1, [&](std::uint64_t turn, std::uint64_t at) {
            if (const std::uint64_t lines = way.lines_at(at); lines != 0)
                visit(moment(turn), OpKind::write_back, page_of(at), lines);
        });
        for_turns(way, visited(way), 0, [&](std::uint64_t turn, std::uint64_t at) {
            if (maps_) visit(moment(turn) + 1, OpKind::map_write, page_of(at), ~0ull);
            if (const std::uint64_t lines = way.lines_at(at); lines != 0)
                visit(moment(turn) + 2, way.kind, page_of(at), lines);
        });
    }
}

}  // namespace pagelens
