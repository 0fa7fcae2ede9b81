// The shared parts: L3, the snoop filter, and the way to memory.
#pragma once

#include "core/machine/hierarchy/hierarchy_of.hpp"

namespace pagelens {

// A line that the tile's L2 does not have. `given`: it need not be fetched, a core of the tile has
// it. True if the line comes dirty, with the duty to write it back.
template <bool plain>
bool HierarchyOf<plain>::request(const Requester& who, std::uint64_t line, std::uint32_t slice,
                                 Want want, bool given) {
    typename Filter::Evicted evicted;
    bool forwarded = given, dirty = false, shared_dirty = false;
    if (filter_) {
        const Holders before =
            filter_->request(line, slice, who.tile, want != Want::share, evicted);
        const Holders others = before & ~(Holders{1} << who.tile);
        if (others != 0) {
            forwarded = true;
            if (want != Want::share) {
                dirty = invalidate(others, line, false);
            } else if (std::has_single_bit(others)) {  // of several, none has written to it
                shared_dirty = clean(static_cast<std::uint32_t>(std::countr_zero(others)), line);
            }
        }
    }
    using Kind = L3Request::Kind;
    ask_beside(who, line, slice,
               want == Want::share ? Kind::read
               : want == Want::own ? Kind::own
                                   : Kind::take_whole,
               forwarded, dirty);
    bool found = false;
    if (l3_) {
        const Spot spot = l3_->find(line, slice);
        found = static_cast<bool>(spot);
        const bool stays = l3_inclusion_ == Inclusion::inclusive ||
                           (l3_inclusion_ == Inclusion::victim && want == Want::share);
        if (found && stays) {
            l3_->use(spot, false);
        } else if (found) {
            dirty |= l3_->remove(spot);
        } else if (l3_inclusion_ == Inclusion::inclusive) {
            fill_inclusive_l3(who, spot, line, slice);
        }
    }
    if (want != Want::own_whole) {
        if (l3_) who.count(found ? Counter::l3_hits : Counter::l3_misses);
        if (!found && forwarded) who.count(Counter::core_forwards);
        if (!found && !forwarded) memory(who, line, false);
    }
    if (shared_dirty) cast_out(who, line, slice, true, true);
    if (evicted.holders != 0) {
        who.count(Counter::sf_evictions);
        const bool written = invalidate(evicted.holders, evicted.line, true);
        cast_out(who, evicted.line, slice, written, false);  // an entry's row is of one slice
    }
    return dirty;
}

// The tile is about to write to a line that it holds, and that nobody has written to.
template <bool plain>
void HierarchyOf<plain>::own(const Requester& who, std::uint64_t line, std::uint32_t slice) {
    if (filter_) {
        typename Filter::Evicted evicted;  // none: the line has its entry
        const Holders before = filter_->request(line, slice, who.tile, true, evicted);
        invalidate(before & ~(Holders{1} << who.tile), line, false);
    }
    ask_beside(who, line, slice, L3Request::Kind::take_whole);
    if (l3_ && l3_inclusion_ != Inclusion::inclusive) {
        if (const auto spot = l3_->find(line, slice)) l3_->remove(spot);
    }
}

// A line that a tile gives up, or (dirty) shares from now on. `held`: private caches still have it.
template <bool plain>
void HierarchyOf<plain>::cast_out(const Requester& who, std::uint64_t line, std::uint32_t slice,
                                  bool dirty, bool held) {
    ask_beside(who, line, slice, L3Request::Kind::put, dirty);
    const bool taken = l3_ && (l3_inclusion_ == Inclusion::victim ||
                               (l3_inclusion_ == Inclusion::exclusive && !held));
    if (l3_ && (taken || dirty)) {
        Spot spot = l3_->find(line, slice);
        if (spot) return l3_->use(spot, dirty);
        if (taken) return l3_victim(who, l3_->fill(spot, line, dirty));
    }
    if (dirty) leaves_dirty(who, line);
}

template <bool plain>
void HierarchyOf<plain>::fill_inclusive_l3(Requester who, Spot spot, std::uint64_t line,
                                           std::uint32_t slice) {
    Entry victim = l3_->fill(spot, line, false);
    if (!victim.valid) return;
    // A row is of one slice; without rows any line may have gone.
    const std::uint32_t its_slice = plain ? slice : slice_of(victim.line);
    const Holders holders = filter_ ? filter_->remove(victim.line, its_slice) : 1;
    victim.dirty |= invalidate(holders, victim.line, true);
    l3_victim(who, victim);
}

template <bool plain>
void HierarchyOf<plain>::l3_victim(const Requester& who, const Entry& victim) {
    if (!victim.dirty) return;
    who.count(Counter::llc_victims_m);
    leaves_dirty(who, victim.line);
}

template <bool plain>
void HierarchyOf<plain>::memory(const Requester& who, std::uint64_t line, bool write) {
    who.count(write ? Counter::dram_writes : Counter::dram_reads);
    who.traffic->push_back(MemoryAccess(line, who.core, write));
}

}  // namespace pagelens
