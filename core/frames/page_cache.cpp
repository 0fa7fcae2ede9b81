#include "core/frames/page_cache.hpp"

#include <algorithm>
#include <utility>

namespace pagelens {

void PageCache::reclaim(Memory& memory, unsigned cpu, std::size_t count) {
    for (count = std::min(count, pages()); count > 0; --count) {
        memory.free(cpu, pages_[oldest_++], small_order);
    }
    if (oldest_ > pages_.size() / 2) {
        pages_.erase(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(oldest_));
        oldest_ = 0;
    }
    free_slabs(memory, cpu);
}

void PageCache::shrink(Memory& memory, unsigned cpu, std::size_t kept, Random& random) {
    if (pages() <= kept) return;
    pages_.erase(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(oldest_));
    oldest_ = 0;
    shuffle_items(pages_, random);
    while (pages_.size() > kept) {
        memory.free(cpu, pages_.back(), small_order);
        pages_.pop_back();
    }
    shuffle_items(slab_, random);
    free_slabs(memory, cpu);
}

void PageCache::free_slabs(Memory& memory, unsigned cpu) {
    while (!slab_.empty() && (slab_.size() - 1) * pages_a_slab >= pages()) {
        memory.free(cpu, slab_.back(), small_order);
        slab_.pop_back();
    }
}

void PageCache::pin(Memory& memory, std::size_t count) const {
    Memmap& map = memory.map();
    for (std::size_t i = oldest_; i < oldest_ + std::min(count, pages()); ++i) {
        map.set_allocated(map.unit_of(pages_[i]), 0, MigrateType::unmovable);
    }
}

void PageCache::follow(const Memory& memory, const std::vector<Move>& moves) {
    if (moves.empty()) return;
    const Memmap& map = memory.map();
    std::vector<std::uint32_t> place(map.units(), ~0u);  // [unit] index of the page in it
    for (std::size_t i = oldest_; i < pages_.size(); ++i) {
        place[map.unit_of(pages_[i])] = static_cast<std::uint32_t>(i);
    }
    for (const Move& move : moves) {
        const std::uint32_t index = std::exchange(place[map.unit_of(move.from)], ~0u);
        place[map.unit_of(move.to)] = index;
        if (index != ~0u) pages_[index] = move.to;
    }
}

}  // namespace pagelens
