// The pages of all ranks: which frame each has now, and of each page the few ranks whose frame is
// in the sample, so that an op costs a short list instead of all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/frames/placement.hpp"
#include "core/machine/huge_array.hpp"
#include "core/machine/lru_bank.hpp"
#include "core/replay/base_pages.hpp"
#include "core/replay/residency.hpp"
#include "core/replay/sampling.hpp"

namespace pagelens {

class OutOfMemory : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class RankPages {
  public:
    // The frames that are listed: those in the sample, or all of the sampled colours (for an L2).
    enum class Listed : std::uint8_t { covered, coloured };

    // `cleared(rank, first frame, frames)` below is called for each page that the kernel hands out,
    // and so clears. Of a rank the kernel takes at most `kernel_frames` for itself. `numa`, if
    // given, says where threads run, and outlives this; without it a rank runs on the CPU of its
    // number.
    RankPages(const Program& program, const Placement& placement, std::uint32_t ranks,
              const Sampling& sampling, Listed listed, SlotPopulation population,
              std::uint32_t kernel_frames = 0, const NumaPlacing* numa = nullptr);

    // The first write of a page, by a thread: every rank gets a frame, in turn; where the policy
    // gives large pages, the first touch in one takes it whole. Throws OutOfMemory.
    template <class Cleared>
    void map_write(std::uint32_t page, Cleared&& cleared, unsigned thread = 0);
    // The first writes of many pages, one after the other, which never show a file. Does what
    // map_write() does for those that have no frames yet. Calls cleared(page, first frame, frames)
    // where some of these are in the sample, and comes(page) for each page. Returns how many frames
    // the kernel handed out. Throws OutOfMemory.
    template <class Cleared, class Comes>
    std::uint64_t map_each(std::span<const std::uint32_t> pages, Cleared&& cleared, Comes&& comes);
    // The first read of a page that shows page `cached` of the page cache: all ranks have its one
    // frame there, which the cache keeps, until they write the page. Throws OutOfMemory.
    void map_read(std::uint32_t page, std::uint32_t cached, unsigned thread = 0);
    // (Where the kernel's pages are larger than 4 KiB, the first write or read in one takes it
    // whole, and it goes back when no page in it is mapped.) The pages' frames go back; a large
    // page goes when the last of its pages does. They go when the next frame is asked for: most of
    // what a program gives back, nobody asks for any more.
    void unmap(std::uint32_t first, std::uint64_t count);

    // Moves every small page that a rank has of its own to another frame of a source that shuffles
    // from now on, as far as there are any; moved(from, to) for each. Precondition: the kernel's
    // pages are of 4 KiB.
    template <class Moved>
    void shuffle(Moved&& moved);

    // Moves a rank's own small page to the NUMA node of a thread, in every rank where it lies on
    // another node, and that one has a frame to spare; moved(from, to) for each. Returns how many
    // have moved. Precondition: it is writable(), and the kernel's pages are of 4 KiB.
    template <class Moved>
    std::uint64_t move(std::uint32_t page, unsigned thread, Moved&& moved);

    // Does the same for pages on nodes of a lower tier, as Linux promotes them. A node that has no
    // frame to spare makes room for later pages: by its page cache, and if that is not enough,
    // missing(node, frames) says how many frames of others it takes.
    template <class Moved, class Missing>
    std::uint64_t promote(std::uint32_t page, unsigned thread, Moved&& moved, Missing&& missing);
    // Moves small pages of a node, in every rank where the page lies there, to the nearest node
    // of a lower tier that has a frame to spare. Preconditions and result are those of move().
    template <class Moved>
    std::uint64_t demote(std::uint32_t page, unsigned node, Moved&& moved);
    // The ranks whose own small page lies on a node, or on a node of a lower tier. Precondition: it
    // is writable(), and there are NUMA nodes.
    [[nodiscard]] std::uint32_t on_node(std::uint32_t page, unsigned node) const {
        return ranks_on(page, 1ull << node);
    }
    [[nodiscard]] std::uint32_t on_slow(std::uint32_t page) const {
        return ranks_on(page, numa_->slow_nodes);
    }
    // Returns the node of the thread in the first rank whose page is slow, or in the first rank.
    [[nodiscard]] unsigned node_of_thread(std::uint32_t page, unsigned thread) const {
        std::uint32_t rank = 0;
        while (rank + 1 < ranks_ && !is_small_on(page, rank, numa_->slow_nodes)) ++rank;
        return numa_->node_of_cpu[numa_->cpus[rank * threads_ + thread]];
    }
    // FrameSource::spare_frames()
    std::uint32_t spare_frames(unsigned node) {
        give_back();
        return source_->spare_frames(node);
    }

    [[nodiscard]] bool mapped(std::uint32_t page) const { return states_[page] > leaving; }
    // Whether some of its frames are listed (for_sampled()).
    [[nodiscard]] bool listed(std::uint32_t page) const { return states_[page] >= first_list; }
    // Whether its frames are the ranks' own, as a write needs them.
    [[nodiscard]] bool writable(std::uint32_t page) const { return mapped(page) && !shared_[page]; }
    // Returns the rank that stands for all that have the same frame as this one.
    [[nodiscard]] std::uint32_t holder(std::uint32_t page, std::uint32_t rank) const {
        return shared_[page] ? 0 : rank;
    }
    // Precondition: it is mapped.
    [[nodiscard]] std::uint32_t frame(std::uint32_t page, std::uint32_t rank) const {
        return frames_[std::size_t{page} * ranks_ + rank];
    }
    // log2 of the frames of the page that a rank's `page` lies in. Precondition: it is mapped.
    [[nodiscard]] unsigned order_of(std::uint32_t page, std::uint32_t rank) const {
        const std::uint32_t block = block_of_.empty() ? none : block_of_[page];
        return in_large_page(block, rank) ? order_ : small_order;
    }
    // Whether that is the same for all ranks.
    [[nodiscard]] bool is_of_one_order(std::uint32_t page) const {
        for (std::uint32_t rank = 1; rank < ranks_ && !block_of_.empty(); ++rank) {
            if (order_of(page, rank) != order_of(page, 0)) return false;
        }
        return true;
    }
    // A frame for the kernel's own use, as for a page table of a rank. Throws OutOfMemory.
    Frame take_frame(std::uint32_t rank);
    // visit(std::span<const RankPage>, lines) for the listed frames of a page, colour by colour, of
    // which some of `lines` are in the sample. The frames that are in it are marked as watched.
    template <class Visit>
    void for_sampled(std::uint32_t page, std::uint64_t lines, Visit&& visit) const {
        if (states_[page] < first_list) return;
        if (ranks_ == 1) return for_only(frames_[page], lines, visit);
        const RankPage* at = pool_.data() + (states_[page] - first_list);
        for (bool last = false; !last;) {
            const RankPage head = *at++;
            last = head.watched != 0;
            const std::uint64_t of_member = lines & sampling_.member_lines(head.rank);
            if (of_member != 0) visit(std::span(at, head.frame), of_member);
            at += head.frame;
        }
    }
    // Ahead of map_write(): the program's threads walk many arrays at once, more than the host's
    // own prefetchers follow.
    [[gnu::always_inline]] void prefetch_to_map(std::uint32_t page) const {
        __builtin_prefetch(&frames_[std::size_t{page} * ranks_], 1);
        if (!block_of_.empty()) __builtin_prefetch(&block_of_[page]);
        if (ranks_ == 1) return;
        __builtin_prefetch(&lists_[page], 1);
        __builtin_prefetch(&rooms_[page], 1);
    }
    // Two steps ahead of for_sampled(), the second some time after the first.
    void prefetch_list(std::uint32_t page) const { __builtin_prefetch(&states_[page]); }
    [[gnu::always_inline]] void prefetch_frames(std::uint32_t page) const {
        if (states_[page] < first_list) return;
        if (ranks_ == 1) return __builtin_prefetch(&frames_[page]);
        __builtin_prefetch(pool_.data() + (states_[page] - first_list));
    }
    // Ahead of for_sampled() for a page that is listed.
    [[gnu::always_inline]] void prefetch_listed(std::uint32_t page) const {
        if (ranks_ > 1) return prefetch_frames(page);
        __builtin_prefetch(&states_[page]);
        __builtin_prefetch(&frames_[page]);
    }
    Residency peak() { return population_.peak(); }
    [[nodiscard]] std::uint64_t huge_pages() const { return huge_pages_; }
    [[nodiscard]] std::uint64_t small_fallbacks() const { return small_fallbacks_; }

    // If less than this share of a large page is ever written, the mapping is too small for one, as
    // a stack would be (assumed). Pages that are only read do not count, because they are the zero
    // page.
    static constexpr std::uint32_t least_share = 8;

  private:
    static constexpr std::uint32_t none = ~0u;
    // The state of a page. A page that is leaving is unmapped, but its frames have not gone back.
    // From `first_list` on, the page has a list, which begins at state - first_list in pool_, if
    // there are several ranks. So an op reads one word before the list itself.
    using State = std::uint32_t;
    static constexpr State unmapped = 0, leaving = 1, unlisted = 2, first_list = 3;

    struct Block {
        std::uint32_t first;       // into block_pages_
        std::uint32_t pages;       // that the program ever touches
        std::uint32_t mapped = 0;  // of these
    };

    struct PageRange {
        std::uint32_t first;
        std::uint64_t count;
    };

    void make_room_for_lists();
    // `advised`: only where the program asks for large pages.
    void find_blocks(const Program& program, bool advised);
    // The frames of all pages that are leaving go back, in the order in which these were unmapped.
    void give_back() {
        if (!leaving_.empty()) give_back_all();
    }
    void give_back_all();
    // The CPU of the rank's first thread. It asks for and gives back those frames for which no
    // thread is named.
    [[nodiscard]] std::uint32_t cpu_of(std::uint32_t rank) const {
        return numa_ == nullptr ? rank : numa_->cpus[rank * threads_];
    }
    void give_back(std::uint32_t first, std::uint64_t count);
    template <class Cleared>
    void open_block(std::uint32_t block, std::uint32_t page, Cleared&& cleared, unsigned thread);
    // The frame of a rank's small page that has none, with all of the kernel's page around it if
    // the rank has no other page in that one.
    template <class Cleared>
    std::uint32_t take_small(std::uint32_t rank, std::uint32_t page, Cleared&& cleared,
                             unsigned thread);
    void give_small(std::uint32_t rank, std::uint32_t page);
    // Takes a kernel's page, and returns its first frame.
    std::uint32_t take_base(std::uint32_t rank, std::uint32_t page, unsigned thread);
    // A frame for a rank's page, or 2^order neighbours, by the policy of the page.
    MaybeFrame alloc(std::uint32_t rank, std::uint32_t page, unsigned order, unsigned thread);
    void close_block(std::uint32_t block);
    [[nodiscard]] bool is_small_on(std::uint32_t page, std::uint32_t rank,
                                   std::uint64_t nodes) const {
        return (nodes >> numa_->node_of_frame(frame(page, rank)) & 1) != 0 &&
               order_of(page, rank) == small_order;
    }
    [[nodiscard]] std::uint32_t ranks_on(std::uint32_t page, std::uint64_t nodes) const {
        std::uint32_t ranks = 0;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
            ranks += is_small_on(page, rank, nodes) ? 1 : 0;
        return ranks;
    }
    static Request move_to(std::uint64_t nodes, std::uint8_t home, std::uint32_t cpu,
                           std::uint32_t page, std::uint32_t rank) {
        return {
            .cpu = cpu, .numas = nodes, .page = page, .rank = rank, .home = home, .sparing = true};
    }
    // Gives a rank's small page another frame if there is one to spare, as
    // migrate_misplaced_folio() does, which takes nothing from a node that is nearly full.
    template <class Moved>
    bool replace(std::uint32_t page, std::uint32_t rank, const Request& request, Moved&& moved);
    // Call it for a page that has just been mapped. A single rank needs no list: its frame says
    // it all.
    void list_sampled(std::uint32_t page) {
        if (ranks_ > 1) return list_ranks(page);
        states_[page] = member_of(frames_[page]) == Sampling::none ? unlisted : first_list;
    }
    void list_ranks(std::uint32_t page);
    // for_sampled() of a single rank. Precondition: the frame is listed.
    template <class Visit>
    void for_only(std::uint32_t frame, std::uint64_t lines, Visit&& visit) const {
        const std::uint64_t of_member = lines & sampling_.lines(frame);
        if (of_member == 0) return;
        const RankPage only{frame, 0, watched(frame)};
        visit(std::span(&only, 1), of_member);
    }
    [[nodiscard]] std::uint16_t watched(std::uint32_t frame) const {
        return sampling_.covers(frame) ? 1 : 0;
    }
    // Returns which colour's list a frame belongs to, Sampling::none if to no list.
    [[nodiscard]] std::uint32_t member_of(std::uint32_t frame) const {
        if (frame == none || (listed_ == Listed::covered && !sampling_.covers(frame)))
            return Sampling::none;
        return sampling_.member(frame);
    }
    // Makes the page's list `length` entries long, and returns where it begins.
    RankPage* room_for(std::uint32_t page, std::uint32_t length);
    [[nodiscard]] bool in_large_page(std::uint32_t block, std::uint32_t rank) const {
        return block != none && large_[std::size_t{block} * ranks_ + rank] != none;
    }
    std::uint32_t& frame_of(std::uint32_t page, std::uint32_t rank) {
        return frames_[std::size_t{page} * ranks_ + rank];
    }
    [[noreturn]] void out_of_memory() const;
    // Puts those of `pages` that have no frames into fresh_, and hands out frames for them.
    void take_for(std::span<const std::uint32_t> pages);

    std::uint32_t ranks_;
    Sampling sampling_;
    Listed listed_;
    unsigned order_;  // of large pages; small_order if there are none
    std::uint32_t node_frames_;
    unsigned threads_;
    std::span<const VirtualPage> addresses_;
    const NumaPlacing* numa_;
    std::unique_ptr<FrameSource> source_;
    SlotPopulation population_;
    HugeVector<std::uint32_t> frames_;  // [page][rank]
    HugeVector<State> states_;          // [page]
    std::vector<PageRange> leaving_;
    std::vector<bool> shared_;          // [page] its frame is the page cache's
    std::vector<std::uint32_t> cache_;  // [page of the page cache] its frame, or none
    // Only several ranks have these:
    // [page] where in pool_ the room for its list begins, or `none` if it never had one
    HugeVector<std::uint32_t> lists_;
    // [page] entries of pool_ that are its own. They double where they are too few: a page that is
    // mapped again and again leaves less behind than it has.
    HugeVector<std::uint32_t> rooms_;
    // The lists: colour by colour, a head {frame: how many, rank: the member, watched: 1 if it is
    // the last colour} and then its frames.
    HugeVector<RankPage> pool_;
    std::optional<BasePages> base_;  // if the kernel's pages are larger than 4 KiB
    // Large pages: empty unless order_ > small_order.
    HugeVector<std::uint32_t> block_of_;   // [page] its block, none if that stays on small pages
    HugeVector<std::uint32_t> offset_of_;  // [page] frames from the block's beginning
    std::vector<Block> blocks_;
    HugeVector<std::uint32_t> block_pages_;  // pages block by block
    std::vector<std::uint32_t> large_;       // [block][rank] first frame of its large page
    std::uint64_t huge_pages_ = 0, small_fallbacks_ = 0;
    std::vector<std::uint32_t> fresh_;  // pages that map_each() maps
    std::vector<Frame> given_;          // their frames
};

template <class Cleared>
void RankPages::map_write(std::uint32_t page, Cleared&& cleared, unsigned thread) {
    if (writable(page)) return;
    if (mapped(page)) unmap(page, 1);
    give_back();
    const std::uint32_t block = block_of_.empty() ? none : block_of_[page];
    if (block != none && blocks_[block].mapped++ == 0) open_block(block, page, cleared, thread);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        std::uint32_t& frame = frame_of(page, rank);
        if (frame != none) continue;
        frame = take_small(rank, page, cleared, thread);
    }
    list_sampled(page);
}

template <class Cleared, class Comes>
std::uint64_t RankPages::map_each(std::span<const std::uint32_t> pages, Cleared&& cleared,
                                  Comes&& comes) {
    if (ranks_ > 1 || base_ || !block_of_.empty() || numa_ != nullptr) {
        std::uint64_t given = 0;
        for (const std::uint32_t page : pages) {
            if (mapped(page)) continue;
            map_write(page, [&](std::uint32_t, std::uint32_t first, std::uint32_t frames) {
                given += frames;
                bool is_sampled = false;
                for (std::uint32_t i = 0; i < frames; ++i)
                    is_sampled |= sampling_.covers(first + i);
                if (is_sampled) cleared(page, first, frames);
            });
            comes(page);
        }
        return given;
    }
    take_for(pages);
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
        const std::uint32_t page = fresh_[i], frame = given_[i].raw();
        frames_[page] = frame;
        population_.add(frame);
        list_sampled(page);
        if (listed(page) && sampling_.covers(frame)) cleared(page, frame, 1u);
        comes(page);
    }
    return fresh_.size();
}

template <class Cleared>
std::uint32_t RankPages::take_small(std::uint32_t rank, std::uint32_t page, Cleared&& cleared,
                                    unsigned thread) {
    if (base_) {
        BasePages::Held& held = base_->of_rank(page, rank);
        if (held.users++ == 0) {
            held.first = take_base(rank, page, thread);
            cleared(rank, held.first, base_->frames());
        }
        return held.first + base_->offset(page);
    }
    const auto given = alloc(rank, page, small_order, thread);
    if (!given) out_of_memory();
    population_.add(given->raw());
    cleared(rank, given->raw(), 1u);
    return given->raw();
}

template <class Cleared>
void RankPages::open_block(std::uint32_t block, std::uint32_t page, Cleared&& cleared,
                           unsigned thread) {
    const std::span<const std::uint32_t> pages(&block_pages_[blocks_[block].first],
                                               blocks_[block].pages);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const auto given = alloc(rank, page, order_, thread);
        if (!given) {
            ++small_fallbacks_;
            continue;
        }
        ++huge_pages_;
        large_[std::size_t{block} * ranks_ + rank] = given->raw();
        for (std::uint32_t i = 0; i < 1u << order_; ++i) population_.add(given->raw() + i);
        cleared(rank, given->raw(), 1u << order_);
        for (const std::uint32_t other : pages)
            frame_of(other, rank) = given->raw() + offset_of_[other];
    }
}

template <class Moved>
bool RankPages::replace(std::uint32_t page, std::uint32_t rank, const Request& request,
                        Moved&& moved) {
    give_back();
    const auto given = source_->alloc(request);
    if (!given) return false;
    std::uint32_t& frame = frame_of(page, rank);
    const std::uint32_t from = std::exchange(frame, given->raw());
    population_.remove(from);
    population_.add(frame);
    source_->free({request.cpu, small_order}, Frame(from));
    moved(from, frame);
    return true;
}

template <class Moved>
std::uint64_t RankPages::move(std::uint32_t page, unsigned thread, Moved&& moved) {
    if (numa_ == nullptr) return 0;
    std::uint64_t count = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::uint32_t cpu = numa_->cpus[rank * threads_ + thread];
        const std::uint8_t node = numa_->node_of_cpu[cpu];
        if (!is_small_on(page, rank, ~(1ull << node))) continue;
        count += replace(page, rank, move_to(1ull << node, node, cpu, page, rank), moved) ? 1 : 0;
    }
    if (count != 0) list_sampled(page);
    return count;
}

template <class Moved, class Missing>
std::uint64_t RankPages::promote(std::uint32_t page, unsigned thread, Moved&& moved,
                                 Missing&& missing) {
    if (numa_ == nullptr) return 0;
    std::uint64_t count = 0, full = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::uint32_t cpu = numa_->cpus[rank * threads_ + thread];
        const std::uint8_t node = numa_->node_of_cpu[cpu];
        if (!is_small_on(page, rank, numa_->slow_nodes)) continue;
        if (replace(page, rank, move_to(1ull << node, node, cpu, page, rank), moved)) {
            ++count;
        } else if ((full >> node & 1) == 0) {
            full |= 1ull << node;
            const std::uint32_t frames = source_->make_room(node, numa_->slow_nodes);
            if (frames > 0) missing(node, frames);
        }
    }
    if (count != 0) list_sampled(page);
    return count;
}

template <class Moved>
std::uint64_t RankPages::demote(std::uint32_t page, unsigned node, Moved&& moved) {
    if (numa_ == nullptr) return 0;
    std::uint64_t count = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        if (!is_small_on(page, rank, 1ull << node)) continue;
        const auto home = static_cast<std::uint8_t>(node);
        count +=
            replace(page, rank, move_to(numa_->slow_nodes, home, cpu_of(rank), page, rank), moved)
                ? 1
                : 0;
    }
    if (count != 0) list_sampled(page);
    return count;
}

template <class Moved>
void RankPages::shuffle(Moved&& moved) {
    give_back();
    source_->shuffle();
    for (std::uint32_t page = 0; page < states_.size(); ++page) {
        if (!writable(page)) continue;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            std::uint32_t& frame = frame_of(page, rank);
            const auto given = source_->alloc({rank, small_order});
            if (!given) break;
            const std::uint32_t from = std::exchange(frame, given->raw());
            population_.remove(from);
            population_.add(frame);
            source_->free({rank, small_order}, Frame(from));
            moved(from, frame);
        }
        list_sampled(page);
    }
    population_.forget_peak();
}

}  // namespace pagelens
