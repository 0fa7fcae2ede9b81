// The page cache: single movable pages of files, and the slab pages that describe them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/compaction.hpp"
#include "core/frames/memory.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

class PageCache {
  public:
    // The cache pages, oldest first, and slab pages.
    [[nodiscard]] std::size_t pages() const { return pages_.size() - gone_; }
    [[nodiscard]] std::size_t slab_pages() const { return slab_.size(); }

    // A page of the memory enters. `slab`: one that describes pages.
    void add(Frame page) { pages_.push_back(page); }
    void add_slab(Frame page) { slab_.push_back(page); }
    // Returns whether another slab page is due. A node of the page cache's tree describes 64 pages;
    // it has 576 bytes, so a slab of 4 KiB holds seven.
    [[nodiscard]] bool needs_slab() const { return slab_.size() * pages_a_slab < pages(); }

    // Frees the oldest `count` pages of the NUMA nodes in the bit mask. Returns how many there
    // were.
    std::size_t reclaim(Memory& memory, unsigned cpu, std::size_t count, std::uint64_t numas);
    // Moves the oldest `count` pages of a NUMA node to the nearest of the nodes in the bit mask
    // `to` that has frames to spare, where they are the youngest, and frees them if none has.
    // Returns how many there were.
    std::size_t demote(Memory& memory, unsigned cpu, std::size_t count, unsigned numa,
                       std::uint64_t to);
    // Frees the oldest pages of one zone, until it is above its high watermark.
    void reclaim(Memory& memory, unsigned cpu, const Zone& zone);
    // Frees all but `kept` pages, chosen at random and in random order, and slabs in proportion.
    void shrink(Memory& memory, unsigned cpu, std::size_t kept, Random& random);
    // Makes `count` pages immovable. They are chosen at random, and may be fewer. Whoever pinned a
    // page keeps it, so it leaves the cache and stays until the next boot.
    void pin(Memory& memory, std::size_t count, Random& random);
    // Follows pages that were moved, in this order.
    void follow(const std::vector<Move>& moves);

  private:
    static constexpr std::size_t pages_a_slab = 448;

    // In the place of a page that was reclaimed, so that those of other NUMA nodes need not move.
    static constexpr Frame gone{~0u};

    void close_gaps();
    void free_slabs(Memory& memory, unsigned cpu);

    std::vector<Frame> pages_;
    std::size_t gone_ = 0;               // of them
    std::vector<std::size_t> searched_;  // [NUMA node] none of its pages lies before this place
    std::vector<Frame> slab_;
};

// Shuffles items (Fisher and Yates).
template <class T>
void shuffle_items(std::vector<T>& items, Random& random) {
    for (auto left = static_cast<std::uint32_t>(items.size()); left > 1; --left) {
        std::swap(items[left - 1], items[random.below(left)]);
    }
}

}  // namespace pagelens
