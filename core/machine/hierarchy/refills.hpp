// What caches hold after a long run, put in at once.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "core/machine/hierarchy/hierarchy_of.hpp"

namespace pagelens {

template <bool plain>
void HierarchyOf<plain>::become(const HierarchyOf& other) {
    l2_ = other.l2_;
    l3_ = other.l3_;
    filter_ = other.filter_;
    if (beside_) beside_->become(*other.beside_);
}

// Lines come from the last use on, so none has to leave for another. The snoop filter then gets the
// lines that came to lie in L2s as they would have asked for them, and takes some of them away.
template <bool plain>
void HierarchyOf<plain>::refill(std::span<const PageRun> uses) {
    check(uses);
    std::vector<std::uint64_t> in_l2(uses.size());  // of each run
    for (std::size_t i = uses.size(); i-- > 0;) {
        const PageRun& its = uses[i];
        const std::uint64_t first = std::uint64_t{its.frame} * lines_per_page;
        for (std::uint64_t rest = its.lines; rest != 0;) {
            const std::uint64_t bit = std::bit_floor(rest);
            rest ^= bit;
            const std::uint64_t line = first + static_cast<unsigned>(std::countr_zero(bit));
            if (append(own_[its.core].tile, line, slice_of(line),
                       its.kind == AccessKind::write_back))
                in_l2[i] |= bit;
        }
    }
    MemoryTraffic unasked;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        const auto [lines, frame, core, kind] = uses[i];
        const auto [l1, tile] = own_[core];
        const Requester who{core, l1, tile, &counts_[core * cache_counters], &unasked};
        const Want want = kind == AccessKind::write_back ? Want::own_whole : Want::share;
        for (std::uint64_t rest = in_l2[i]; rest != 0; rest &= rest - 1) {
            const std::uint64_t line = std::uint64_t{frame} * lines_per_page +
                                       static_cast<unsigned>(std::countr_zero(rest));
            request(who, line, slice_of(line), want, true);
        }
    }
    if (!beside_) return;
    beside_->run(asked_, traffic_beside_);
    asked_.clear();
}

// A line that was used before all that are there: it goes where there is room. Returns whether that
// is the L2.
template <bool plain>
bool HierarchyOf<plain>::append(std::uint32_t tile, std::uint64_t line, std::uint32_t slice,
                                bool dirty) {
    Spot spot = l2_.find(line, tile);
    if (spot) return false;
    const bool inclusive = l3_ && l3_inclusion_ == Inclusion::inclusive;
    if (inclusive && !append_to_l3(line, slice, dirty)) return false;
    l2_.append(spot, line, dirty);
    if (spot) {
        l2_.beside(spot) = static_cast<std::uint8_t>(slice);
        return true;
    }
    if (l3_ && !inclusive) append_to_l3(line, slice, dirty);
    if (beside_) beside_->append(line, slice, dirty);
    return false;
}

// Returns whether L3 has the line then.
template <bool plain>
bool HierarchyOf<plain>::append_to_l3(std::uint64_t line, std::uint32_t slice, bool dirty) {
    Spot spot = l3_->find(line, slice);
    if (!spot) l3_->append(spot, line, dirty);
    return static_cast<bool>(spot);
}

}  // namespace pagelens
