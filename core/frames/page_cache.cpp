#include "core/frames/page_cache.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace pagelens {

std::size_t PageCache::reclaim(Memory& memory, unsigned cpu, std::size_t count,
                               std::uint64_t numas) {
    std::size_t freed = 0;
    const auto reclaim_oldest = [&] {
        memory.free(cpu, pages_[oldest_++], small_order);
        ++freed;
    };
    const auto served = [&](Frame page) {
        return (numas >> memory.zone_of(memory.map().unit_of(page)).spec().numa & 1) != 0;
    };
    if (const std::uint64_t all = (2ull << (memory.numas() - 1)) - 1; (numas & all) == all) {
        while (freed < count && pages() > 0) reclaim_oldest();
    } else {  // what the other nodes have moves up behind the last page that goes
        auto last = pages_.begin() + static_cast<std::ptrdiff_t>(oldest_);
        for (std::size_t found = 0; found < count && last != pages_.end(); ++last) {
            found += served(*last) ? 1 : 0;
        }
        const auto first = std::stable_partition(
            pages_.begin() + static_cast<std::ptrdiff_t>(oldest_), last, served);
        while (pages_.begin() + static_cast<std::ptrdiff_t>(oldest_) != first) reclaim_oldest();
    }
    if (oldest_ > pages_.size() / 2) {
        pages_.erase(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(oldest_));
        oldest_ = 0;
    }
    free_slabs(memory, cpu);
    return freed;
}

void PageCache::reclaim(Memory& memory, unsigned cpu, const Zone& zone) {
    const std::uint32_t free = zone.free_frames(), high = zone.spec().high;
    std::uint32_t freed = 0;  // some of them lie in the CPU's lists
    const auto reclaimed = [&](Frame page) {
        const Unit unit = memory.map().unit_of(page);
        if (free + freed > high || unit < zone.begin() || unit >= zone.end()) return false;
        memory.free(cpu, page, small_order);
        ++freed;
        return true;
    };
    const auto oldest = pages_.begin() + static_cast<std::ptrdiff_t>(oldest_);
    pages_.erase(std::remove_if(oldest, pages_.end(), reclaimed), pages_.end());
    free_slabs(memory, cpu);
}

void PageCache::shrink(Memory& memory, unsigned cpu, std::size_t kept, Random& random) {
    if (pages() <= kept) return;
    pages_.erase(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(oldest_));
    oldest_ = 0;
    while (pages_.size() > kept) {
        Frame& page = pages_[random.below(static_cast<std::uint32_t>(pages_.size()))];
        memory.free(cpu, std::exchange(page, pages_.back()), small_order);
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

void PageCache::pin(Memory& memory, std::size_t count, Random& random) {
    Memmap& map = memory.map();
    for (count = std::min(count, pages()); count > 0; --count) {
        std::swap(pages_[oldest_],
                  pages_[oldest_ + random.below(static_cast<std::uint32_t>(pages()))]);
        map.pin(pages_[oldest_++]);
    }
}

void PageCache::follow(const std::vector<Move>& moves) {
    if (moves.empty()) return;
    std::unordered_map<std::uint32_t, std::size_t> place;  // [frame] index of the page in it
    place.reserve(pages());
    for (std::size_t i = oldest_; i < pages_.size(); ++i) place[pages_[i].raw()] = i;
    for (const Move& move : moves) {
        const auto found = place.find(move.from.raw());
        if (found == place.end()) continue;
        const std::size_t index = found->second;
        place.erase(found);
        place[move.to.raw()] = index;
        pages_[index] = move.to;
    }
}

}  // namespace pagelens
