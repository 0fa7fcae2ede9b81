// Private L2s under declared loops that walk through whole arrays, each page once in a sweep.
//
// There it is known without a cache what the ops of a page meet: a fetch misses, because many pages
// came since the page was used last; a write-back hits, because few pages came since its fetch. All
// that depends on frames is when a dirty page leaves, which is when as many other pages of its set
// were used since as the cache has ways. That takes a bit for each page of a block, instead of a
// pass through a cache, and is asked for the pages of the sample alone.
//
// Caches are LRU. "Page" means its sampled lines, whose sets are alike (replay.hpp). Where a set
// has so few pages that the above may not hold, take() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/page_set.hpp"
#include "core/accesses/sweep_blocks.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/replay_options.hpp"

namespace pagelens {

class StreamedL2s {
  public:
    // Returns null if the program or the caches are not of this kind. `blocks` may be null.
    static std::unique_ptr<StreamedL2s> of(const SweepBlocks* blocks, const Hierarchy& hierarchy,
                                           const ReplayOptions& options, unsigned threads);

    enum class What : std::uint8_t { map, fetch, stream_store, write_back, leave };
    struct Event {
        std::uint32_t page;
        std::uint16_t object;
        What what;
    };
    // Takes the next block, whose pages have their frames, and finds its events: the ops of the
    // wanted pages in their order, and dirty ones that leave a cache. Returns false if it cannot
    // tell; nothing may be asked of this any more then.
    bool take(const SweepBlocks& blocks, const PageSet& wanted, const RankPages& pages);
    [[nodiscard]] std::span<const Event> events() const { return by_turn_; }

  private:
    StreamedL2s(const WholeWalks& walks, const Hierarchy& hierarchy, const Sampling& sampling,
                unsigned threads);

    using Way = SweepBlocks::Way;
    // A place in a block's order: a way of a cache's cores, in a turn.
    struct Place {
        unsigned turn, way;
    };
    // A dirty page that has not left its cache.
    struct Dirty {
        std::uint32_t page;
        std::uint16_t object;
        std::uint16_t set;
        std::uint32_t arrivals;    // in the set, until it leaves
        std::uint64_t known_from;  // a turn: before it, that many may be too few
    };
    struct Leaving {
        Dirty dirty;
        Place place;
    };
    // The pages that came to a set of a cache lately.
    struct Arrivals {
        std::uint64_t since = 0, before = 0;  // turns when counting began, the last time and now
        std::uint32_t count = 0;
        bool any = false;
    };

    bool take_cache(const SweepBlocks& blocks, std::span<const Way> ways, std::uint32_t cache,
                    const PageSet& wanted, const RankPages& pages);
    void note_arrivals(const SweepBlocks& blocks, std::span<const Way> ways,
                       const RankPages& pages);
    bool enough_came(std::uint32_t cache, std::uint64_t end_turn);
    [[nodiscard]] Dirty written_back(const SweepBlocks& blocks, std::span<const Way> ways,
                                     Place place, std::uint32_t page, const RankPages& pages) const;
    bool find_leaving(const SweepBlocks& blocks, std::span<const Way> ways, std::uint32_t cache,
                      const PageSet& wanted, const RankPages& pages);
    bool wait_or_leave(Dirty dirty, Place from, std::vector<Dirty>& waiting);
    [[nodiscard]] Place place_of(std::uint16_t set, Place from, unsigned number) const;
    [[nodiscard]] unsigned arrivals(std::uint16_t set, Place from, unsigned end_turn) const;
    void put(std::uint64_t turn, const Event& event);
    void put_in_order();
    [[nodiscard]] std::uint16_t set_of(std::uint32_t frame) const {
        return static_cast<std::uint16_t>(frame & (sets_ - 1));
    }
    // The turns in which a page of a set comes by a way, from a place on.
    [[nodiscard]] std::uint64_t arrivals(std::uint16_t set, unsigned way, Place from) const {
        const unsigned first = from.turn + (way < from.way ? 1 : 0);
        return arrivals_[std::size_t{set} * most_ways_ + way] & turns_from(first);
    }
    // The bits of the turns from one on.
    [[nodiscard]] static std::uint64_t turns_from(unsigned turn) {
        return turn == SweepBlocks::block_turns ? 0 : ~0ull << turn;
    }

    std::uint32_t sets_, ways_, shared_by_;  // of pages; of each cache; cores of each
    unsigned most_ways_;                     // of the program in a cache's cores
    std::uint64_t apart_;                    // turns between two sweeps' uses of a page, at least
    Sampling sampling_;
    std::uint64_t turns_ = 0;  // before the block
    // Of a block and a cache: [set][way] the turns in which a page comes.
    std::vector<std::uint64_t> arrivals_;
    std::vector<Arrivals> came_;               // [cache][set]
    std::vector<std::vector<Dirty>> waiting_;  // [cache] from blocks before
    std::vector<Dirty> still_waiting_;
    std::vector<Leaving> leaving_;  // of the block and a cache
    // The events of a block, cache by cache and way by way, and then turn by turn.
    std::vector<Event> by_way_, by_turn_;
    std::vector<std::uint8_t> turn_of_;
};

}  // namespace pagelens
