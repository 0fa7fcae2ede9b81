// Batches of accesses: checked, then run with the rows that they need asked for ahead.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/machine/hierarchy/hierarchy_of.hpp"
#include "core/machine/hierarchy/model_checks.hpp"

namespace pagelens {

template <bool plain>
bool HierarchyOf<plain>::is_possible(std::uint32_t core, std::uint64_t line,
                                     AccessKind kind) const {
    return core < own_.size() && line < lines_end_ && kind <= AccessKind::stream_store &&
           (kind != AccessKind::write_back || !l1_);
}

template <bool plain>
void HierarchyOf<plain>::refuse(std::uint32_t core, std::uint64_t line, AccessKind kind) const {
    hierarchy::require(core < own_.size(), "core " + std::to_string(core) + " is not below " +
                                               std::to_string(own_.size()) +
                                               ", the number of cores");
    hierarchy::require(line < lines_end_, "line " + std::to_string(line) + " is not below " +
                                              std::to_string(lines_end_) +
                                              ", what the caches can tell apart");
    hierarchy::require(
        kind != AccessKind::write_back,
        "write_back comes from an l1 that has run before, but this hierarchy has one");
    throw std::invalid_argument("an access is of no kind that there is");
}

template <bool plain>
void HierarchyOf<plain>::access(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
    for (const auto& [line, core, kind] : batch) {
        if (!is_possible(core, line, kind)) refuse(core, line, kind);
    }
    traffic_beside_.clear();
    run(batch, traffic);
}

template <bool plain>
void HierarchyOf<plain>::check(std::span<const PageRun> batch) const {
    for (const PageRun& its : batch) {
        const std::uint64_t last = std::uint64_t{its.frame} * lines_per_page + lines_per_page - 1;
        if (!is_possible(its.core, last, its.kind)) refuse(its.core, last, its.kind);
    }
}

template <bool plain>
void HierarchyOf<plain>::access(std::span<const PageRun> batch, MemoryTraffic& traffic,
                                std::vector<std::size_t>* ends) {
    check(batch);
    traffic_beside_.clear();
    std::array<LineAccess, 512> chunk;
    std::size_t size = 0;
    for (const PageRun& its : batch) {
        const std::uint64_t first = std::uint64_t{its.frame} * lines_per_page;
        for (std::uint64_t rest = its.lines; rest != 0; rest &= rest - 1) {
            const auto line = static_cast<unsigned>(std::countr_zero(rest));
            chunk[size++] = {first + line, its.core, its.kind};
        }
        if (size + lines_per_page <= chunk.size()) continue;
        run(std::span(chunk).first(size), traffic, ends);
        size = 0;
    }
    run(std::span(chunk).first(size), traffic, ends);
}

// Asks for L2's row if the first cache is most likely going to miss.
template <bool plain>
bool HierarchyOf<plain>::expect_l1_miss(const LineAccess& its) {
    if (std::exchange(asked_for_[place_lately(its.line)], its.line) == its.line) return false;
    l2_.prefetch(its.line, own_[its.core].tile);
    return true;
}

// If L2 is going to miss, too, asks for the rows of this line and of the one that it will push out,
// and returns the line's slice; else returns unknown_slice.
template <bool plain>
std::uint32_t HierarchyOf<plain>::expect_l2_miss(const LineAccess& its) {
    Spot spot = l2_.find(its.line, own_[its.core].tile);
    if (spot) return unknown_slice;
    const std::uint32_t slice = slice_of(its.line);
    prefetch_shared(its.line, slice);
    const Entry victim = l2_.likely_victim(spot, its.line);
    if (victim.valid) prefetch_shared(victim.line, l2_.beside(spot));
    return slice;
}

template <bool plain>
void HierarchyOf<plain>::prefetch_shared(std::uint64_t line, std::uint32_t slice) const {
    if (l3_) l3_->prefetch(line, slice);
    if (filter_) filter_->prefetch(line, slice);
}

// The state of large caches lies in the host's memory, so it is asked for ahead: L2's rows for the
// part of the batch after the next, then those of L3 and filter for the next.
template <bool plain>
void HierarchyOf<plain>::run(std::span<const LineAccess> batch, MemoryTraffic& traffic,
                             std::vector<std::size_t>* ends) {
    std::array<std::array<std::uint32_t, part_size>, 3> slices;  // of the parts under way
    const auto part = [batch](std::size_t number) {
        const std::size_t first = std::min(batch.size(), number * part_size);
        return batch.subspan(first, std::min(batch.size() - first, part_size));
    };
    const std::size_t parts = (batch.size() + part_size - 1) / part_size;
    for (std::size_t now = 0; now < parts + 2; ++now) {
        auto& after_next = slices[now % 3];
        for (std::uint32_t i = 0; const LineAccess& its : part(now))
            after_next[i++] = expect_l1_miss(its) ? 0 : unknown_slice;
        if (now < 1) continue;
        auto& next = slices[(now - 1) % 3];
        for (std::uint32_t i = 0; const LineAccess& its : part(now - 1)) {
            if (next[i] != unknown_slice) next[i] = expect_l2_miss(its);
            ++i;
        }
        if (now < 2) continue;
        const auto& known = slices[(now - 2) % 3];
        for (std::uint32_t i = 0; const LineAccess& its : part(now - 2)) {
            access(its, known[i++], traffic);
            if (ends != nullptr) ends->push_back(traffic.size());
        }
    }
    if (!beside_) return;
    beside_->run(asked_, traffic_beside_);
    asked_.clear();
}

template <bool plain>
void HierarchyOf<plain>::access(const LineAccess& its, std::uint32_t slice,
                                MemoryTraffic& traffic) {
    const auto [line, core, kind] = its;
    const auto [l1, tile] = own_[core];
    const Requester who{core, l1, tile, &counts_[core * cache_counters], &traffic};
    who.count(Counter::accesses);
    switch (kind) {
        case AccessKind::read:
        case AccessKind::write:
            return load_or_store(who, line, slice, kind == AccessKind::write);
        case AccessKind::write_back:
            return write_back(who, line, slice);
        case AccessKind::stream_store:
            return stream_store(who, line, slice == unknown_slice ? slice_of(line) : slice);
    }
}

}  // namespace pagelens
