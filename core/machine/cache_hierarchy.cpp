#include "core/machine/cache_hierarchy.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagelens {
namespace {

constexpr std::uint64_t most_lines = 1ull << 30;  // of one cache: 64 GiB
constexpr std::uint32_t most_slices = 256;        // a line's slice is a byte beside it

void require(bool good, const std::string& what) {
    if (!good) throw std::invalid_argument(what);
}

void check(const CacheGeometry& cache, std::uint32_t slices, const std::string& name) {
    require(std::has_single_bit(cache.sets),
            name + ": sets must be a power of two, not " + std::to_string(cache.sets));
    require(cache.ways >= 1 && cache.ways <= CacheGeometry::most_ways,
            name + ": ways must be 1 to 64, not " + std::to_string(cache.ways));
    require(cache.lines() * slices <= most_lines, name + ": at most 2^30 lines");
    require(!cache.fully_associative || cache.replacement != Replacement::tree_plru,
            name + ": a fully associative cache has replacement lru or random");
}

// The first line that such a cache cannot tell from a lower one.
std::uint64_t end_of_lines(const CacheGeometry& cache) {
    return cache.fully_associative ? ~0ull
                                   : cache.sets * (std::uint64_t{CacheRows<true>::most_tag} + 1);
}

// Every cache of a level draws from a sequence of its own.
std::vector<std::uint64_t> seeds_of(const HierarchyModel& model, unsigned level,
                                    std::uint32_t caches) {
    std::vector<std::uint64_t> seeds;
    for (std::uint32_t i = 0; i < caches; ++i)
        seeds.push_back(RandomVictims::begin(model.seed, std::uint64_t{level} << 32 | i));
    return seeds;
}

std::uint32_t tiles_of(const HierarchyModel& model) {
    return (model.cores + model.l2.shared_by - 1) / model.l2.shared_by;
}

std::uint32_t slices_of(const HierarchyModel& model) {
    return model.slices ? model.slices->values() : 1;
}

void check(const HierarchyModel& model) {
    const std::uint32_t slices = slices_of(model);
    require(slices <= most_slices, "slices: at most 256, not " + std::to_string(slices));
    require(model.cores >= 1 && model.cores <= MemoryAccess::most_cores,
            "cores must be 1 to 65536");
    require(model.l2.shared_by >= 1, "l2: shared by no core");
    check(model.l2.geometry, 1, "l2");
    if (model.l1) {
        check(model.l1->geometry, 1, "l1");
        require(model.l1->shared_by >= 1 && model.l2.shared_by % model.l1->shared_by == 0,
                "l1: the cores of an l2 must be whole groups of those that share an l1");
    }
    require(model.l2_inclusion != Inclusion::victim,
            "l2: inclusion must be inclusive, exclusive or non_inclusive");
    require(model.l2_inclusion != Inclusion::exclusive ||
                (model.l1 && model.l1->shared_by == model.l2.shared_by),
            "l2: an exclusive l2 has one l1 above it");
    if (model.l3) {
        check(model.l3->geometry, slices, "l3");
        require(model.l3->inclusion != Inclusion::non_inclusive,
                "l3: inclusion must be inclusive, exclusive or victim");
    }
    if (model.snoop_filter) {
        check(*model.snoop_filter, slices, "snoop_filter");
    }
    require(!model.writes_at_once || !model.l1, "writes_at_once: not with an l1");
    require(tiles_of(model) <= most_holders,
            "cores: at most 64 L2 caches in one hierarchy, not " + std::to_string(tiles_of(model)));
}

// A fully associative part has no sets that lines' bits would choose.
std::uint32_t fewest_sets_of(const HierarchyModel& model) {
    std::uint32_t fewest = 1u << 31;
    const auto look = [&](const CacheGeometry& its) {
        if (!its.fully_associative) fewest = std::min(fewest, its.sets);
    };
    if (model.l1) look(model.l1->geometry);
    look(model.l2.geometry);
    if (model.l3) look(model.l3->geometry);
    if (model.snoop_filter) look(*model.snoop_filter);
    return fewest;
}

bool is_plain(const HierarchyModel& model) {
    return pagelens::is_plain(model.l2.geometry) &&
           (!model.l1 || pagelens::is_plain(model.l1->geometry)) &&
           (!model.l3 || pagelens::is_plain(model.l3->geometry)) &&
           (!model.snoop_filter || model.snoop_filter->fully_associative ||
            pagelens::is_plain(*model.snoop_filter));
}

}  // namespace

template <bool plain>
HierarchyOf<plain>::HierarchyOf(const HierarchyModel& model)
    : l2_shared_by_(model.l2.shared_by),
      l1s_per_tile_(model.l1 ? model.l2.shared_by / model.l1->shared_by : 0),
      l2_inclusion_(model.l2_inclusion),
      l3_inclusion_(model.l3 ? model.l3->inclusion : Inclusion::victim),
      writes_at_once_(model.writes_at_once),
      slices_(model.slices),
      l2_(model.l2.geometry, tiles_of(model), seeds_of(model, 2, tiles_of(model)), true),
      lines_end_(end_of_lines(model.l2.geometry)),
      fewest_sets_(fewest_sets_of(model)),
      counts_(std::size_t{model.cores} * cache_counters) {
    const std::uint32_t tiles = tiles_of(model);
    const std::uint32_t slices = slices_of(model);
    std::uint64_t private_lines = tiles * model.l2.geometry.lines();
    for (std::uint32_t core = 0; core < model.cores; ++core)
        own_.push_back({model.l1 ? core / model.l1->shared_by : 0, core / l2_shared_by_});
    if (model.l1) {
        const std::uint32_t l1s = tiles * l1s_per_tile_;
        l1_.emplace(model.l1->geometry, l1s, seeds_of(model, 1, l1s), true);
        private_lines += l1s * model.l1->geometry.lines();
        lines_end_ = std::min(lines_end_, end_of_lines(model.l1->geometry));
    }
    if (model.l3) {
        l3_.emplace(model.l3->geometry, slices, seeds_of(model, 3, 1), false);
        lines_end_ = std::min(lines_end_, end_of_lines(model.l3->geometry));
    }
    if (const auto& its = model.snoop_filter; its && !its->fully_associative) {
        filter_.emplace(slices, its->sets, its->ways, its->replacement,
                        seeds_of(model, 4, 1).front(), tiles);
        lines_end_ = std::min(lines_end_, end_of_lines(*its));
    } else if (its || tiles > 1) {
        filter_.emplace(private_lines);
    }
    lines_end_ = std::min(lines_end_, MemoryAccess::end_of_lines);
    asked_for_.fill(lines_end_);
}

template <bool plain>
bool HierarchyOf<plain>::private_holds(std::uint32_t core, std::uint64_t line) const {
    const auto [l1, tile] = own_[core];
    return l2_.find(line, tile) || (l1_ && l1_->find(line, l1));
}

template <bool plain>
bool HierarchyOf<plain>::l3_holds(std::uint64_t line) const {
    return l3_ && l3_->find(line, slice_of(line));
}

// --- batches

template <bool plain>
bool HierarchyOf<plain>::is_possible(std::uint32_t core, std::uint64_t line,
                                     AccessKind kind) const {
    return core < own_.size() && line < lines_end_ && kind <= AccessKind::stream_store &&
           (kind != AccessKind::write_back || !l1_);
}

template <bool plain>
void HierarchyOf<plain>::refuse(std::uint32_t core, std::uint64_t line, AccessKind kind) const {
    require(core < own_.size(), "core " + std::to_string(core) + " is not below " +
                                    std::to_string(own_.size()) + ", the number of cores");
    require(line < lines_end_, "line " + std::to_string(line) + " is not below " +
                                   std::to_string(lines_end_) + ", what the caches can tell apart");
    require(kind != AccessKind::write_back,
            "write_back comes from an l1 that has run before, but this hierarchy has one");
    throw std::invalid_argument("an access is of no kind that there is");
}

template <bool plain>
void HierarchyOf<plain>::access(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
    for (const auto& [line, core, kind] : batch) {
        if (!is_possible(core, line, kind)) refuse(core, line, kind);
    }
    run(batch, traffic);
}

template <bool plain>
void HierarchyOf<plain>::access(std::span<const PageRun> batch, MemoryTraffic& traffic) {
    for (const PageRun& its : batch) {
        const std::uint64_t last = std::uint64_t{its.frame} * lines_per_page + lines_per_page - 1;
        if (!is_possible(its.core, last, its.kind)) refuse(its.core, last, its.kind);
    }
    std::array<LineAccess, 512> chunk;
    std::size_t size = 0;
    for (const PageRun& its : batch) {
        const std::uint64_t first = std::uint64_t{its.frame} * lines_per_page;
        for (std::uint64_t rest = its.lines; rest != 0; rest &= rest - 1) {
            const auto line = static_cast<unsigned>(std::countr_zero(rest));
            chunk[size++] = {first + line, its.core, its.kind};
        }
        if (size + lines_per_page <= chunk.size()) continue;
        run(std::span(chunk).first(size), traffic);
        size = 0;
    }
    run(std::span(chunk).first(size), traffic);
}

// Whether L1 is going to miss, most likely: then L2's row is asked for.
template <bool plain>
bool HierarchyOf<plain>::expect_l1_miss(const LineAccess& its) {
    if (l1_ && std::exchange(asked_for_[its.line % lately], its.line) == its.line) return false;
    l2_.prefetch(its.line, own_[its.core].tile);
    return true;
}

// Where L2 is going to miss, too, the line's slice, and the rows of this line and of the one that
// it will push out are asked for; else unknown_slice.
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
void HierarchyOf<plain>::run(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
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
        for (std::uint32_t i = 0; const LineAccess& its : part(now - 2))
            access(its, known[i++], traffic);
    }
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

// --- one access

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
    if (l3_) {
        if (const auto spot = l3_->find(line, slice)) dirty |= l3_->remove(spot);
    }
    if (dirty) leaves_dirty(who, line);
    memory(who, line, true);
}

// --- private caches

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

// --- what the cores share

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
    if (l3_ && l3_inclusion_ != Inclusion::inclusive) {
        if (const auto spot = l3_->find(line, slice)) l3_->remove(spot);
    }
}

// A line that a tile gives up, or (dirty) shares from now on. `held`: private caches still have it.
template <bool plain>
void HierarchyOf<plain>::cast_out(const Requester& who, std::uint64_t line, std::uint32_t slice,
                                  bool dirty, bool held) {
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

template class HierarchyOf<true>;
template class HierarchyOf<false>;

// --- either of them

CacheHierarchy::CacheHierarchy(const HierarchyModel& model)
    : its_([&model]() -> decltype(its_) {
          check(model);
          if (is_plain(model)) return HierarchyOf<true>(model);
          return HierarchyOf<false>(model);
      }()) {}

void CacheHierarchy::access(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
    std::visit([&](auto& its) { its.access(batch, traffic); }, its_);
}

void CacheHierarchy::access(std::span<const PageRun> batch, MemoryTraffic& traffic) {
    std::visit([&](auto& its) { its.access(batch, traffic); }, its_);
}

void CacheHierarchy::access(std::span<const std::uint64_t> lines,
                            std::span<const std::uint32_t> cores, std::span<const AccessKind> kinds,
                            MemoryTraffic& traffic) {
    require(lines.size() == cores.size() && lines.size() == kinds.size(),
            "lines, cores and kinds must be of one length");
    std::vector<LineAccess> batch(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) batch[i] = {lines[i], cores[i], kinds[i]};
    access(batch, traffic);
}

void CacheHierarchy::access(std::span<const std::uint32_t> frames,
                            std::span<const std::uint64_t> lines,
                            std::span<const std::uint16_t> cores, std::span<const AccessKind> kinds,
                            MemoryTraffic& traffic) {
    require(frames.size() == lines.size() && frames.size() == cores.size() &&
                frames.size() == kinds.size(),
            "frames, lines, cores and kinds must be of one length");
    std::vector<PageRun> batch(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        batch[i] = {lines[i], frames[i], cores[i], kinds[i]};
    }
    access(batch, traffic);
}

std::span<const std::uint64_t> CacheHierarchy::counts() const {
    return std::visit([](const auto& its) { return std::span(its.counts()); }, its_);
}

std::uint32_t CacheHierarchy::cores() const {
    return static_cast<std::uint32_t>(counts().size() / cache_counters);
}

std::uint32_t CacheHierarchy::fewest_sets() const {
    return std::visit([](const auto& its) { return its.fewest_sets(); }, its_);
}

std::uint64_t CacheHierarchy::total(CacheCounter counter) const {
    std::uint64_t sum = 0;
    for (std::uint32_t core = 0; core < cores(); ++core) sum += count(core, counter);
    return sum;
}

void CacheHierarchy::reset_counts() {
    std::visit([](auto& its) { std::fill(its.counts().begin(), its.counts().end(), 0); }, its_);
}

bool CacheHierarchy::private_holds(std::uint32_t core, std::uint64_t line) const {
    return std::visit([&](const auto& its) { return its.private_holds(core, line); }, its_);
}

bool CacheHierarchy::l3_holds(std::uint64_t line) const {
    return std::visit([&](const auto& its) { return its.l3_holds(line); }, its_);
}

}  // namespace pagelens
