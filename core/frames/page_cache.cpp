#include "core/frames/page_cache.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace pagelens {

std::size_t PageCache::reclaim(Memory& memory, unsigned cpu, std::size_t count,
                               std::uint64_t numas) {
    std::size_t freed = 0;
    const auto is_asked = [numas](std::size_t numa) { return (numas >> numa & 1) != 0; };
    searched_.resize(memory.numas());
    std::size_t place = pages_.size();
    bool are_all = true;
    for (std::size_t numa = 0; numa < searched_.size(); ++numa) {
        are_all = are_all && is_asked(numa);
        if (is_asked(numa)) place = std::min(place, searched_[numa]);
    }
    for (; freed < count && place < pages_.size(); ++place) {
        if (pages_[place] == gone || !(are_all || is_asked(memory.numa_of(pages_[place]))))
            continue;
        memory.free(cpu, std::exchange(pages_[place], gone), small_order);
        ++freed;
    }
    for (std::size_t numa = 0; numa < searched_.size(); ++numa) {
        if (is_asked(numa)) searched_[numa] = std::max(searched_[numa], place);
    }
    gone_ += freed;
    if (gone_ > pages_.size() / 2) close_gaps();
    free_slabs(memory, cpu);
    return freed;
}

std::size_t PageCache::demote(Memory& memory, unsigned cpu, std::size_t count, unsigned numa,
                              std::uint64_t to) {
    searched_.resize(memory.numas());
    std::size_t place = searched_[numa], left = 0;
    const std::size_t end = pages_.size();  // those that come to the nodes `to` lie behind
    for (; left < count && place < end; ++place) {
        const Frame page = pages_[place];
        if (page == gone || memory.zone_of(memory.map().unit_of(page)).spec().numa != numa)
            continue;
        const auto given =
            to == 0
                ? MaybeFrame()
                : memory.alloc({.cpu = cpu, .numas = to, .home = static_cast<std::uint8_t>(numa)},
                               Memory::Mark::low);
        if (given) pages_.push_back(*given);
        memory.free(cpu, std::exchange(pages_[place], gone), small_order);
        ++left;
    }
    searched_[numa] = place;
    gone_ += left;
    if (gone_ > pages_.size() / 2) close_gaps();
    free_slabs(memory, cpu);
    return left;
}

void PageCache::close_gaps() {
    std::erase(pages_, gone);
    gone_ = 0;
    searched_.assign(searched_.size(), 0);
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
    close_gaps();
    pages_.erase(std::remove_if(pages_.begin(), pages_.end(), reclaimed), pages_.end());
    free_slabs(memory, cpu);
}

void PageCache::shrink(Memory& memory, unsigned cpu, std::size_t kept, Random& random) {
    if (pages() <= kept) return;
    close_gaps();
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
    close_gaps();
    count = std::min(count, pages_.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::swap(pages_[i],
                  pages_[i + random.below(static_cast<std::uint32_t>(pages_.size() - i))]);
        map.pin(pages_[i]);
    }
    pages_.erase(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(count));
}

void PageCache::follow(const std::vector<Move>& moves) {
    if (moves.empty()) return;
    close_gaps();
    std::unordered_map<std::uint32_t, std::size_t> place;  // [frame] index of the page in it
    place.reserve(pages());
    for (std::size_t i = 0; i < pages_.size(); ++i) place[pages_[i].raw()] = i;
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
