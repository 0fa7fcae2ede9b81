#include "core/replay/slot_tenants.hpp"

#include <algorithm>
#include <utility>

namespace pagelens {

void SlotTenants::join(const RankPages& pages, std::uint32_t page) {
    const std::uint32_t ranks = ranks_ == 1 ? 1 : pages.holder(page, ranks_ - 1) + 1;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t set = pages.frame(page, rank) & set_mask_;
        __builtin_prefetch(&first_[set], 1);
        __builtin_prefetch(&next_[std::size_t{page} * ranks_ + rank], 1);
        joining_[joining_count_++] = {set, page * ranks_ + rank};
        if (joining_count_ == joining_.size()) settle();
    }
}

void SlotTenants::leave(const RankPages& pages, std::uint32_t page) {
    settle();
    const std::uint32_t ranks = ranks_ == 1 ? 1 : pages.holder(page, ranks_ - 1) + 1;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t tenant = page * ranks_ + rank + 1;
        std::uint32_t* link = &first_[pages.frame(page, rank) & set_mask_];
        while (*link != tenant) link = &next_[*link - 1];
        *link = next_[tenant - 1];
    }
}

SlotTenants::Found SlotTenants::look(const RankPages& pages, std::uint32_t page, std::uint32_t rank,
                                     unsigned line, const std::uint64_t* reached, bool write) {
    settle();
    const std::uint32_t now = uses_.now() + 1;
    const auto uses = [&](std::uint32_t of, std::uint32_t by) {
        const PageUses::Use use = uses_.of(of);
        const bool ever = (use.lines >> line & 1) != 0;
        std::uint32_t used = ever ? use.used : use.cleared;
        std::uint32_t written = std::max(ever ? use.written : 0, use.cleared);
        if (of == page && (reached[by] >> line & 1) != 0) {
            used = now;
            if (write) written = now;
        }
        return std::pair(moment(used, by), moment(written, by));
    };
    const Moment own = uses(page, rank).first;
    struct Tenant {
        Moment used, written;
        std::uint32_t number;
    };
    // The latest others, the latest first: as many as the set has ways.
    std::array<Tenant, most_ways> latest{};
    std::uint32_t known = 0, later = 0;
    const std::uint32_t self = page * ranks_ + rank;
    const std::uint32_t frame = pages.frame(page, rank);
    for (std::uint32_t at = first_[frame & set_mask_]; at != 0; at = next_[at - 1]) {
        const std::uint32_t number = at - 1;
        if (number == self) continue;
        const auto [used, written] = uses(number / ranks_, number % ranks_);
        if (used == 0) continue;
        later += used > own ? 1 : 0;
        std::uint32_t place = known < ways_ ? known++ : ways_;
        for (; place > 0 && latest[place - 1].used < used; --place)
            if (place < ways_) latest[place] = latest[place - 1];
        if (place < ways_) latest[place] = {used, written, number};
    }
    if (own != 0 && later < ways_) return {false, none};
    if (known < ways_) return {true, none};
    // The one that goes came back after it was written, if as many as the ways were used between.
    const Tenant& victim = latest[ways_ - 1];
    if (victim.written == 0) return {true, none};  // of a file
    std::uint32_t between = own > victim.written && own < victim.used ? 1 : 0;
    for (std::uint32_t at = first_[frame & set_mask_]; at != 0; at = next_[at - 1]) {
        const std::uint32_t number = at - 1;
        if (number == self || number == victim.number) continue;
        const Moment used = uses(number / ranks_, number % ranks_).first;
        between += used > victim.written && used < victim.used ? 1 : 0;
    }
    if (between >= ways_) return {true, none};
    return {true, pages.frame(victim.number / ranks_, victim.number % ranks_)};
}

}  // namespace pagelens
