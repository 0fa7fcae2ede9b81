// A walk through declared sweeps, some turns at a time, which makes the ops of those pages alone
// that are asked for. A replay of a sample needs one page in 64. To make and to pass over the ops
// of all others takes longer than to replay.
//
// Where in a sweep a page is visited follows from its number. So the frames of a block of turns can
// be handed out first, and then it is known which pages are wanted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/accesses/page_set.hpp"
#include "core/accesses/program.hpp"
#include "core/accesses/whole_walks.hpp"

namespace pagelens {

class SweepProgram;
struct Sweep;

class SweepBlocks {
  public:
    // Returns null if the program is not one of declared sweeps, draws pages at random, has its
    // lines in order, or uses pages before it maps them.
    static std::unique_ptr<SweepBlocks> of(const Program& program);

    // Returns the walks of a program that has no others; null otherwise.
    [[nodiscard]] const WholeWalks* whole_walks() const {
        return whole_walks_ ? &*whole_walks_ : nullptr;
    }

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

    // One thread's way through its part of a stream. It comes to page `at` of the part's `pages` in
    // turn ceil(at * turns / pages), and to its end in the last turn.
    struct Way {
        std::uint64_t pages;         // at least 1
        std::uint64_t whole, part;   // turns / pages, and the rest
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
        std::uint64_t early = 0, mapped = 0;  // where maps() is

        [[nodiscard]] std::uint64_t lines_at(std::uint64_t at) const;
    };
    // Pages of a part.
    struct Pages {
        std::uint64_t begin, end;
    };
    // The pages that a way fetches or stores to in the block, and those that it writes back.
    [[nodiscard]] static Pages visited(const Way& way);
    [[nodiscard]] static Pages written_back(const Way& way);
    // Returns the ways, thread by thread and stream by stream.
    [[nodiscard]] std::span<const Way> ways() const { return ways_; }
    // Returns how many turns the block has, at most block_turns.
    static constexpr std::uint64_t block_turns = 64;
    [[nodiscard]] std::uint64_t turns() const { return end_turn_ - turn_; }
    // Returns the block's sweep, and its first turn there.
    [[nodiscard]] std::size_t sweep() const { return sweep_; }
    [[nodiscard]] std::uint64_t first_turn() const { return turn_; }
    // Returns whether the sweeps of the phase run for the first time.
    [[nodiscard]] bool is_first_round() const { return round_ == 0; }
    // Returns whether the block maps pages that it visits.
    [[nodiscard]] bool maps_pages() const { return maps_; }
    // Returns the turn since the block began in which a way comes to a page of its part, or to its
    // end. Precondition: it does so in this block or later.
    [[nodiscard]] std::uint64_t turn_within(const Way& way, std::uint64_t at) const {
        return turn_of(way, at) - turn_;
    }
    // Returns the page of its part that a way has come to in a turn since the block began.
    [[nodiscard]] std::uint64_t page_at(const Way& way, std::uint64_t turn) const {
        return way.pages == turns_ ? turn_ + turn : (turn_ + turn) * way.pages / turns_;
    }
    // Calls visit(page of the part, page of the program) for the wanted ones of some pages.
    template <class Visit>
    static void for_wanted(const PageSet& wanted, const Way& way, Pages pages, Visit&& visit);
    // Calls visit(turn since the block began, page of the part) for pages of a way, whose op comes
    // when the way has gone `later` pages further.
    template <class Visit>
    void for_turns(const Way& way, Pages pages, std::uint64_t later, Visit&& visit) const;

  private:
    explicit SweepBlocks(const SweepProgram& program);

    void start(const Sweep& sweep, std::size_t number);
    void make_block();
    void put(std::uint64_t turn, const Op& op);
    void put_in_order();
    [[nodiscard]] std::uint64_t turn_of(const Way& way, std::uint64_t at) const {
        return way.pages == turns_ ? at : (at * turns_ + way.pages - 1) / way.pages;
    }
    // A way writes back, maps and moves lines in a turn, each at most once.
    [[nodiscard]] std::uint64_t moments_of_turn() const { return 3 * ways_.size(); }

    const SweepProgram& program_;
    std::optional<WholeWalks> whole_walks_;
    unsigned phase_ = ~0u, round_ = 0;
    std::size_t phase_begin_ = 0, phase_end_ = 0, sweep_ = 0;
    bool in_sweep_ = false, maps_ = false;
    std::uint64_t turns_ = 0, turn_ = 0, end_turn_ = 0;  // of the sweep, and of the block
    std::uint64_t turns_before_ = 0, turns_of_all_ = 0, moments_of_all_ = 0;
    std::vector<Way> ways_;  // thread by thread, stream by stream
    // [way] the turn of its next page for maps(), apart because most stand still in most turns.
    std::vector<std::uint64_t> next_maps_;
    std::vector<Op> before_;
    std::vector<std::uint64_t> lines_;
    std::uint64_t most_lines_ = 0;
    std::vector<std::uint32_t> pages_;
    // The ops of a block, way by way and then turn by turn.
    std::vector<Op> by_way_, by_turn_;
    std::vector<std::uint8_t> turn_of_;
};

template <class Visit>
void SweepBlocks::for_wanted(const PageSet& wanted, const Way& way, Pages pages, Visit&& visit) {
    for (std::uint64_t begin = pages.begin; begin < pages.end; begin += 64) {
        std::uint64_t rest = wanted.from(way.first + begin);
        if (pages.end - begin < 64) rest &= (1ull << (pages.end - begin)) - 1;
        for (; rest != 0; rest &= rest - 1) {
            const std::uint64_t at = begin + static_cast<unsigned>(std::countr_zero(rest));
            visit(at, static_cast<std::uint32_t>(way.first + at));
        }
    }
}

template <class Visit>
void SweepBlocks::for_turns(const Way& way, Pages pages, std::uint64_t later, Visit&& visit) const {
    if (pages.begin >= pages.end) return;
    // turn * way.pages + rest == (at + later) * turns + way.pages - 1
    const std::uint64_t first = (pages.begin + later) * turns_ + way.pages - 1;
    std::uint64_t turn = first / way.pages - turn_, rest = first % way.pages;
    for (std::uint64_t at = pages.begin; at < pages.end; ++at) {
        visit(turn, at);
        rest += way.part;
        const bool carries = rest >= way.pages;
        turn += way.whole + (carries ? 1 : 0);
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
