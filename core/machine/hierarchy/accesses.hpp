// One access: a load or store, a write-back from an L1 that has run before, a streaming store.
#pragma once

#include "core/machine/hierarchy/hierarchy_of.hpp"

namespace pagelens {

template <bool plain>
void HierarchyOf<plain>::load_or_store(const Requester& who, std::uint64_t line,
                                       std::uint32_t slice, bool write) {
    if (!l1_) {
        at_l2(who, line, slice, write, false);
        return;
    }
    const Spot spot = l1_->find(line, who.l1);
    if (spot) {
        const bool to_own = write && !l1_->dirty(spot);
        l1_->use(spot, write);
        if (to_own) {
            if (l1s_per_tile_ > 1) settle_siblings(who, line, true);
            own(who, line, l1_->beside(spot));
        }
        return;
    }
    who.count(Counter::l1d_replacement);
    const bool given = l1s_per_tile_ > 1 && settle_siblings(who, line, write);
    const bool dirty = at_l2(who, line, slice, write, given);
    fill_l1(who, spot, line, slice, write || dirty);
}

// A line that L1 does not have, or there is none. `given`: another L1 of the tile gives it. True if
// L2 hands a dirty line over, being exclusive. `slice` is known afterwards.
template <bool plain>
bool HierarchyOf<plain>::at_l2(const Requester& who, std::uint64_t line, std::uint32_t& slice,
                               bool write, bool given) {
    who.count(Counter::l2_references);
    const bool exclusive = l2_inclusion_ == Inclusion::exclusive;
    const bool makes_dirty = write && !l1_;
    const Spot spot = l2_.find(line, who.tile);
    if (spot) {
        slice = l2_.beside(spot);
        const bool dirty = l2_.dirty(spot);
        if (exclusive) {
            l2_.remove(spot);
        } else {
            l2_.use(spot, makes_dirty);
        }
        if (write && !dirty) {
            const bool elsewhere = dirty_in_l3(line, slice);
            own(who, line, slice);
            written(who, line, elsewhere);
        }
        return exclusive && dirty;
    }
    if (slice == unknown_slice) slice = slice_of(line);
    who.count(Counter::l2_misses);
    const bool in_l3 = makes_dirty && dirty_in_l3(line, slice);
    const bool dirty = request(who, line, slice, write ? Want::own : Want::share, given);
    if (exclusive) return dirty;
    if (makes_dirty) written(who, line, dirty || in_l3);
    fill_l2(who, spot, line, slice, dirty || makes_dirty);
    return false;
}

template <bool plain>
void HierarchyOf<plain>::write_back(Requester who, std::uint64_t line, std::uint32_t slice) {
    who.count(Counter::l1d_writebacks);
    const Spot spot = l2_.find(line, who.tile);
    if (spot) {
        const bool dirty = l2_.dirty(spot);
        l2_.use(spot, true);
        if (!dirty) {
            slice = l2_.beside(spot);
            const bool in_l3 = dirty_in_l3(line, slice);
            own(who, line, slice);
            written(who, line, in_l3);
        }
        return;
    }
    if (slice == unknown_slice) slice = slice_of(line);
    const bool in_l3 = dirty_in_l3(line, slice);
    const bool dirty = request(who, line, slice, Want::own_whole, false);
    written(who, line, dirty || in_l3);
    fill_l2(who, spot, line, slice, true);
}

template <bool plain>
void HierarchyOf<plain>::stream_store(Requester who, std::uint64_t line, std::uint32_t slice) {
    bool dirty = invalidate(filter_ ? filter_->remove(line, slice) : 1, line, false);
    ask_beside(who, line, slice, L3Request::Kind::overwrite, dirty);
    if (l3_) {
        if (const auto spot = l3_->find(line, slice)) dirty |= l3_->remove(spot);
    }
    if (dirty) leaves_dirty(who, line);
    memory(who, line, true);
}

}  // namespace pagelens
