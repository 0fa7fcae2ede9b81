// Fills and victims of the caches of one core, or of the cores that share an L2.
#pragma once

#include "core/machine/hierarchy/hierarchy_of.hpp"

namespace pagelens {

template <bool plain>
void HierarchyOf<plain>::fill_l1(const Requester& who, Spot spot, std::uint64_t line,
                                 std::uint32_t slice, bool dirty) {
    const Entry out = l1_->fill(spot, line, dirty);
    const std::uint32_t its_slice =
        std::exchange(l1_->beside(spot), static_cast<std::uint8_t>(slice));
    if (out.valid) l1_victim(who, out.line, its_slice, out.dirty);
}

template <bool plain>
void HierarchyOf<plain>::fill_l2(const Requester& who, Spot spot, std::uint64_t line,
                                 std::uint32_t slice, bool dirty) {
    who.count(Counter::l2_lines_in);
    const Entry out = l2_.fill(spot, line, dirty);
    const std::uint32_t its_slice =
        std::exchange(l2_.beside(spot), static_cast<std::uint8_t>(slice));
    if (out.valid) l2_victim(who, out.line, its_slice, out.dirty);
}

template <bool plain>
void HierarchyOf<plain>::l1_victim(const Requester& who, std::uint64_t line, std::uint32_t slice,
                                   bool dirty) {
    who.count(Counter::l1d_writebacks, dirty);
    if (!dirty && l2_inclusion_ != Inclusion::exclusive) {
        if (filter_ && !l1s_hold(who.tile, line) && !l2_.find(line, who.tile)) {
            filter_->leave(line, slice, who.tile);
        }
        return;
    }
    const Spot spot = l2_.find(line, who.tile);
    if (spot) return l2_.use(spot, true);
    fill_l2(who, spot, line, slice, dirty);
}

template <bool plain>
void HierarchyOf<plain>::l2_victim(const Requester& who, std::uint64_t line, std::uint32_t slice,
                                   bool dirty) {
    bool held = false;
    if (l2_inclusion_ == Inclusion::inclusive) {
        for (std::uint32_t l1 = first_l1(who.tile); l1 < first_l1(who.tile + 1); ++l1) {
            if (const Spot spot = l1_->find(line, l1)) dirty |= l1_->remove(spot);
        }
    } else if (filter_ || l3_inclusion_ == Inclusion::exclusive) {
        held = l1s_hold(who.tile, line);
    }
    who.count(Counter::l2_writebacks, dirty);
    if (filter_ && !held) held = filter_->leave(line, slice, who.tile) != 0;
    cast_out(who, line, slice, dirty, held);
}

// Other L1s above the same L2 give up a line that is to be written, or what they have written to
// it. True if one of them had it.
template <bool plain>
bool HierarchyOf<plain>::settle_siblings(Requester who, std::uint64_t line, bool write) {
    bool found = false;
    for (std::uint32_t l1 = first_l1(who.tile); l1 < first_l1(who.tile + 1); ++l1) {
        if (l1 == who.l1) continue;
        const Spot spot = l1_->find(line, l1);
        if (!spot) continue;
        found = true;
        const bool dirty = l1_->dirty(spot);
        write ? static_cast<void>(l1_->remove(spot)) : l1_->clean(spot);
        if (dirty) l1_victim(who, line, l1_->beside(spot), true);
    }
    return found;
}

template <bool plain>
bool HierarchyOf<plain>::invalidate(Holders tiles, std::uint64_t line, bool counted) {
    bool dirty = false;
    for (; tiles != 0; tiles &= tiles - 1) {
        const auto tile = static_cast<std::uint32_t>(std::countr_zero(tiles));
        bool held = false;
        const auto take_from = [&](Cache& caches, std::uint32_t part) {
            if (const Spot spot = caches.find(line, part)) {
                dirty |= caches.remove(spot);
                held = true;
            }
        };
        take_from(l2_, tile);
        for (std::uint32_t l1 = first_l1(tile); l1 < first_l1(tile + 1); ++l1) take_from(*l1_, l1);
        if (held && counted) {
            ++counts_[std::size_t{tile} * l2_shared_by_ * cache_counters +
                      static_cast<std::size_t>(Counter::l2_back_invalidations)];
        }
    }
    return dirty;
}

// A tile keeps a line, but no longer as its own; true if it had written to it.
template <bool plain>
bool HierarchyOf<plain>::clean(std::uint32_t tile, std::uint64_t line) {
    bool dirty = false;
    const auto clean_in = [&](Cache& caches, std::uint32_t part) {
        if (const Spot spot = caches.find(line, part)) {
            dirty |= caches.dirty(spot);
            caches.clean(spot);
        }
    };
    clean_in(l2_, tile);
    for (std::uint32_t l1 = first_l1(tile); l1 < first_l1(tile + 1); ++l1) clean_in(*l1_, l1);
    return dirty;
}

template <bool plain>
bool HierarchyOf<plain>::l1s_hold(std::uint32_t tile, std::uint64_t line) const {
    for (std::uint32_t l1 = first_l1(tile); l1 < first_l1(tile + 1); ++l1) {
        if (l1_->find(line, l1)) return true;
    }
    return false;
}

}  // namespace pagelens
