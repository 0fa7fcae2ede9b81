#include "core/machine/cache_hierarchy.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace pagelens {
namespace {

constexpr std::uint64_t most_lines = 1ull << 30;  // of one cache: 64 GiB

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

// Every cache draws from a sequence of its own.
std::uint64_t seed_of(const HierarchyModel& model, unsigned level, std::uint32_t index) {
    return RandomVictims::begin(model.seed, std::uint64_t{level} << 32 | index);
}

void check(const HierarchyModel& model) {
    const std::uint32_t slices = model.slices ? model.slices->values() : 1;
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
    const std::uint32_t tiles = (model.cores + model.l2.shared_by - 1) / model.l2.shared_by;
    require(tiles <= most_holders,
            "cores: at most 64 L2 caches in one hierarchy, not " + std::to_string(tiles));
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
    : cores_(model.cores),
      l1_shared_by_(model.l1 ? model.l1->shared_by : 1),
      l2_shared_by_(model.l2.shared_by),
      l1s_per_tile_(model.l1 ? model.l2.shared_by / model.l1->shared_by : 0),
      l2_inclusion_(model.l2_inclusion),
      l3_inclusion_(model.l3 ? model.l3->inclusion : Inclusion::victim),
      slices_(model.slices),
      lines_end_(end_of_lines(model.l2.geometry)),
      counts_(std::size_t{model.cores} * cache_counters) {
    const std::uint32_t tiles = (cores_ + l2_shared_by_ - 1) / l2_shared_by_;
    const std::uint32_t slices = model.slices ? model.slices->values() : 1;
    for (std::uint32_t i = 0; i < tiles; ++i) {
        l2_.emplace_back(model.l2.geometry, 1, seed_of(model, 2, i));
    }
    std::size_t private_lines = tiles * model.l2.geometry.lines();
    if (model.l1) {
        for (std::uint32_t i = 0; i < tiles * l1s_per_tile_; ++i) {
            l1_.emplace_back(model.l1->geometry, 1, seed_of(model, 1, i));
        }
        private_lines += l1_.size() * model.l1->geometry.lines();
        lines_end_ = std::min(lines_end_, end_of_lines(model.l1->geometry));
    }
    if (model.l3) {
        l3_.emplace(model.l3->geometry, slices, seed_of(model, 3, 0));
        lines_end_ = std::min(lines_end_, end_of_lines(model.l3->geometry));
    }
    if (const auto& its = model.snoop_filter; its && !its->fully_associative) {
        filter_.emplace(slices, its->sets, its->ways, its->replacement, seed_of(model, 4, 0));
        lines_end_ = std::min(lines_end_, end_of_lines(*its));
    } else if (its || tiles > 1) {
        filter_.emplace(private_lines);
    }
    lines_end_ = std::min(lines_end_, MemoryAccess::end_of_lines);
}

template <bool plain>
bool HierarchyOf<plain>::private_holds(std::uint32_t core, std::uint64_t line) const {
    return l2_[core / l2_shared_by_].find(line, 0) ||
           (!l1_.empty() && l1_[core / l1_shared_by_].find(line, 0));
}

template <bool plain>
bool HierarchyOf<plain>::l3_holds(std::uint64_t line) const {
    return l3_ && l3_->find(line, slice_of(line));
}

// --- batches

template <bool plain>
bool HierarchyOf<plain>::is_possible(std::uint32_t core, std::uint64_t line,
                                     AccessKind kind) const {
    return core < cores_ && line < lines_end_ && kind <= AccessKind::stream_store &&
           (kind != AccessKind::write_back || l1_.empty());
}

template <bool plain>
void HierarchyOf<plain>::refuse(std::uint32_t core, std::uint64_t line, AccessKind kind) const {
    require(core < cores_, "core " + std::to_string(core) + " is not below " +
                               std::to_string(cores_) + ", the number of cores");
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

// Returns the line's slice, or unknown_slice where L1 is going to hit, most likely.
template <bool plain>
[[gnu::always_inline]] inline std::uint32_t HierarchyOf<plain>::expect(
    const LineAccess& its) const {
    if (!l1_.empty() && l1_[its.core / l1_shared_by_].find(its.line, 0)) return unknown_slice;
    const std::uint32_t slice = slice_of(its.line);
    l2_[its.core / l2_shared_by_].prefetch(its.line, 0);
    if (l3_) l3_->prefetch(its.line, slice);
    if (filter_) filter_->prefetch(its.line, slice);
    return slice;
}

template <bool plain>
[[gnu::always_inline]] inline void HierarchyOf<plain>::expect_victim(const LineAccess& its,
                                                                     std::uint32_t slice) const {
    if (slice == unknown_slice || (!l3_ && !filter_)) return;
    const Cache& l2 = l2_[its.core / l2_shared_by_];
    if (l2.find(its.line, 0)) return;
    const auto victim = l2.likely_victim(its.line, 0);
    if (!victim.valid) return;
    const std::uint32_t its_slice = slice_of(victim.line);
    if (l3_) l3_->prefetch(victim.line, its_slice);
    if (filter_) filter_->prefetch(victim.line, its_slice);
}

// The state of large caches lies in the host's memory, so it is asked for ahead: the rows of a line
// first, and when they are there, those of the line that it will push out of L2.
template <bool plain>
void HierarchyOf<plain>::run(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
    std::array<std::uint32_t, ahead> slices;  // of the accesses under way
    for (std::size_t i = 0; i < batch.size() + ahead; ++i) {
        if (i >= ahead) {
            const LineAccess& its = batch[i - ahead];
            access(its, slices[i % ahead], traffic);
        }
        if (i < batch.size()) slices[i % ahead] = expect(batch[i]);
        if (const std::size_t then = i - ahead / 2; i >= ahead / 2 && then < batch.size())
            expect_victim(batch[then], slices[then % ahead]);
    }
}

template <bool plain>
void HierarchyOf<plain>::access(const LineAccess& its, std::uint32_t slice,
                                MemoryTraffic& traffic) {
    const auto [line, core, kind] = its;
    const Requester who{core, core / l2_shared_by_, &counts_[core * cache_counters], &traffic};
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
    if (l1_.empty()) {
        at_l2(who, line, slice, write, false);
        return;
    }
    Cache& l1 = l1_[who.core / l1_shared_by_];
    const auto spot = l1.find(line, 0);
    if (spot) {
        const bool to_own = write && !l1.dirty(spot);
        l1.use(spot, write);
        if (to_own) {
            if (l1s_per_tile_ > 1) settle_siblings(who, line, true);
            own(who, line, slice == unknown_slice ? slice_of(line) : slice);
        }
        return;
    }
    if (slice == unknown_slice) slice = slice_of(line);
    who.count(Counter::l1d_replacement);
    const bool given = l1s_per_tile_ > 1 && settle_siblings(who, line, write);
    const bool dirty = at_l2(who, line, slice, write, given);
    const auto victim = l1.fill(spot, line, write || dirty);
    if (victim.valid) l1_victim(who, victim);
}

// A line that L1 does not have, or there is none. `given`: another L1 of the tile gives it. True if
// L2 hands a dirty line over, being exclusive.
template <bool plain>
bool HierarchyOf<plain>::at_l2(const Requester& who, std::uint64_t line, std::uint32_t slice,
                               bool write, bool given) {
    who.count(Counter::l2_references);
    Cache& l2 = l2_[who.tile];
    const bool exclusive = l2_inclusion_ == Inclusion::exclusive;
    const bool makes_dirty = write && l1_.empty();
    const auto spot = l2.find(line, 0);
    if (spot) {
        const bool dirty = l2.dirty(spot);
        if (exclusive) {
            l2.remove(spot);
        } else {
            l2.use(spot, makes_dirty);
        }
        if (write && !dirty) own(who, line, slice);
        return exclusive && dirty;
    }
    who.count(Counter::l2_misses);
    const bool dirty = request(who, line, slice, write ? Want::own : Want::share, given);
    if (exclusive) return dirty;
    who.count(Counter::l2_lines_in);
    const auto victim = l2.fill(spot, line, dirty || makes_dirty);
    if (victim.valid) l2_victim(who, victim);
    return false;
}

template <bool plain>
void HierarchyOf<plain>::write_back(const Requester& who, std::uint64_t line, std::uint32_t slice) {
    Cache& l2 = l2_[who.tile];
    const auto spot = l2.find(line, 0);
    if (spot) {
        const bool dirty = l2.dirty(spot);
        l2.use(spot, true);
        if (!dirty) own(who, line, slice);
        return;
    }
    request(who, line, slice, Want::own_whole, false);
    who.count(Counter::l2_lines_in);
    const auto victim = l2.fill(spot, line, true);
    if (victim.valid) l2_victim(who, victim);
}

template <bool plain>
void HierarchyOf<plain>::stream_store(const Requester& who, std::uint64_t line,
                                      std::uint32_t slice) {
    bool dirty = invalidate(filter_ ? filter_->remove(line, slice) : 1, line, false);
    if (l3_) {
        if (const auto spot = l3_->find(line, slice)) dirty |= l3_->remove(spot);
    }
    if (dirty) memory(who, line, true);
    memory(who, line, true);
}

// --- private caches

template <bool plain>
void HierarchyOf<plain>::l1_victim(const Requester& who, const Victim& victim) {
    if (victim.dirty) who.count(Counter::l1d_writebacks);
    if (!victim.dirty && l2_inclusion_ != Inclusion::exclusive) {
        if (filter_ && !l1s_hold(who.tile, victim.line) && !l2_[who.tile].find(victim.line, 0)) {
            filter_->leave(victim.line, slice_of(victim.line), who.tile);
        }
        return;
    }
    Cache& l2 = l2_[who.tile];
    const auto spot = l2.find(victim.line, 0);
    if (spot) return l2.use(spot, true);
    who.count(Counter::l2_lines_in);
    const auto next = l2.fill(spot, victim.line, victim.dirty);
    if (next.valid) l2_victim(who, next);
}

template <bool plain>
void HierarchyOf<plain>::l2_victim(const Requester& who, const Victim& victim) {
    bool dirty = victim.dirty, held = false;
    if (l2_inclusion_ == Inclusion::inclusive) {
        for (Cache& l1 : l1s_of(who.tile)) {
            if (const auto spot = l1.find(victim.line, 0)) dirty |= l1.remove(spot);
        }
    } else if (filter_ || l3_inclusion_ == Inclusion::exclusive) {
        held = l1s_hold(who.tile, victim.line);
    }
    if (dirty) who.count(Counter::l2_writebacks);
    const std::uint32_t slice = slice_of(victim.line);
    if (filter_ && !held) held = filter_->leave(victim.line, slice, who.tile) != 0;
    cast_out(who, victim.line, slice, dirty, held);
}

// Other L1s above the same L2 give up a line that is to be written, or what they have written to
// it. True if one of them had it.
template <bool plain>
bool HierarchyOf<plain>::settle_siblings(const Requester& who, std::uint64_t line, bool write) {
    const Cache* const own_l1 = &l1_[who.core / l1_shared_by_];
    bool found = false;
    for (Cache& l1 : l1s_of(who.tile)) {
        if (&l1 == own_l1) continue;
        const auto spot = l1.find(line, 0);
        if (!spot) continue;
        found = true;
        const bool dirty = l1.dirty(spot);
        write ? static_cast<void>(l1.remove(spot)) : l1.clean(spot);
        if (dirty) l1_victim(who, {line, true, true});
    }
    return found;
}

template <bool plain>
bool HierarchyOf<plain>::invalidate(Holders tiles, std::uint64_t line, bool counted) {
    bool dirty = false;
    for (; tiles != 0; tiles &= tiles - 1) {
        const auto tile = static_cast<std::uint32_t>(std::countr_zero(tiles));
        bool held = false;
        const auto take_from = [&](Cache& cache) {
            if (const auto spot = cache.find(line, 0)) {
                dirty |= cache.remove(spot);
                held = true;
            }
        };
        take_from(l2_[tile]);
        for (Cache& l1 : l1s_of(tile)) take_from(l1);
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
    const auto clean_in = [&](Cache& cache) {
        if (const auto spot = cache.find(line, 0)) {
            dirty |= cache.dirty(spot);
            cache.clean(spot);
        }
    };
    clean_in(l2_[tile]);
    for (Cache& l1 : l1s_of(tile)) clean_in(l1);
    return dirty;
}

template <bool plain>
bool HierarchyOf<plain>::l1s_hold(std::uint32_t tile, std::uint64_t line) const {
    const auto* const first = l1_.data() + std::size_t{tile} * l1s_per_tile_;
    return std::any_of(first, first + l1s_per_tile_,
                       [line](const Cache& l1) { return static_cast<bool>(l1.find(line, 0)); });
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
        const auto spot = l3_->find(line, slice);
        found = static_cast<bool>(spot);
        const bool stays = l3_inclusion_ == Inclusion::inclusive ||
                           (l3_inclusion_ == Inclusion::victim && want == Want::share);
        if (found && stays) {
            l3_->use(spot, false);
        } else if (found) {
            dirty |= l3_->remove(spot);
        } else if (l3_inclusion_ == Inclusion::inclusive) {
            fill_inclusive_l3(who, line, spot);
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
        cast_out(who, evicted.line, slice_of(evicted.line), written, false);
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
        const auto spot = l3_->find(line, slice);
        if (spot) return l3_->use(spot, dirty);
        if (taken) return l3_victim(who, l3_->fill(spot, line, dirty));
    }
    if (dirty) memory(who, line, true);
}

template <bool plain>
void HierarchyOf<plain>::fill_inclusive_l3(const Requester& who, std::uint64_t line,
                                           typename Cache::Spot spot) {
    auto victim = l3_->fill(spot, line, false);
    if (!victim.valid) return;
    const Holders holders = filter_ ? filter_->remove(victim.line, slice_of(victim.line)) : 1;
    victim.dirty |= invalidate(holders, victim.line, true);
    l3_victim(who, victim);
}

template <bool plain>
void HierarchyOf<plain>::l3_victim(const Requester& who, const Victim& victim) {
    if (!victim.dirty) return;
    who.count(Counter::llc_victims_m);
    memory(who, victim.line, true);
}

template <bool plain>
void HierarchyOf<plain>::memory(const Requester& who, std::uint64_t line, bool write) {
    who.count(write ? Counter::dram_writes : Counter::dram_reads);
    who.traffic->emplace_back(line, who.core, write);
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
