#include "core/machine/cache_hierarchy.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

// The parts of HierarchyOf are compiled here together, because its inner loop is one function.
#include "core/machine/hierarchy/accesses.hpp"
#include "core/machine/hierarchy/batches.hpp"
#include "core/machine/hierarchy/private_caches.hpp"
#include "core/machine/hierarchy/refills.hpp"
#include "core/machine/hierarchy/shared_caches.hpp"

namespace pagelens {

template <bool plain>
HierarchyOf<plain>::HierarchyOf(const HierarchyModel& model)
    : l2_shared_by_(model.l2.shared_by),
      l1s_per_tile_(model.l1 ? model.l2.shared_by / model.l1->shared_by : 0),
      l2_inclusion_(model.l2_inclusion),
      l3_inclusion_(model.l3 ? model.l3->inclusion : Inclusion::victim),
      writes_at_once_(model.writes_at_once),
      slices_(model.slices),
      l2_(model.l2.geometry, hierarchy::tiles_of(model),
          hierarchy::seeds_of(model, 2, hierarchy::tiles_of(model)), true),
      lines_end_(hierarchy::end_of_lines(model.l2.geometry)),
      fewest_sets_(hierarchy::fewest_sets_of(model)),
      places_are_apart_(hierarchy::places_are_apart(model)),
      counts_(std::size_t{model.cores} * cache_counters) {
    const std::uint32_t tiles = hierarchy::tiles_of(model);
    const std::uint32_t slices = hierarchy::slices_of(model);
    std::uint64_t private_lines = tiles * model.l2.geometry.lines();
    for (std::uint32_t core = 0; core < model.cores; ++core)
        own_.push_back({model.l1 ? core / model.l1->shared_by : 0, core / l2_shared_by_});
    if (model.l1) {
        const std::uint32_t l1s = tiles * l1s_per_tile_;
        l1_.emplace(model.l1->geometry, l1s, hierarchy::seeds_of(model, 1, l1s), true);
        private_lines += l1s * model.l1->geometry.lines();
        lines_end_ = std::min(lines_end_, hierarchy::end_of_lines(model.l1->geometry));
    }
    if (model.l3) {
        l3_.emplace(model.l3->geometry, slices, hierarchy::seeds_of(model, 3, 1), false);
        lines_end_ = std::min(lines_end_, hierarchy::end_of_lines(model.l3->geometry));
    }
    if (model.l3_beside) {
        beside_.emplace(model);
        lines_end_ = std::min(lines_end_, hierarchy::end_of_lines(*model.l3_beside));
    }
    if (const auto& its = model.snoop_filter; its && !its->fully_associative) {
        filter_.emplace(slices, its->sets, its->ways, its->replacement,
                        hierarchy::seeds_of(model, 4, 1).front(), tiles, private_lines);
        lines_end_ = std::min(lines_end_, hierarchy::end_of_lines(*its));
    } else if (its || tiles > 1) {
        filter_.emplace(tiles, private_lines);
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

template class HierarchyOf<true>;
template class HierarchyOf<false>;

CacheHierarchy::CacheHierarchy(const HierarchyModel& model)
    : its_([&model]() -> decltype(its_) {
          hierarchy::check(model);
          if (hierarchy::is_plain(model)) return HierarchyOf<true>(model);
          return HierarchyOf<false>(model);
      }()) {}

void CacheHierarchy::access(std::span<const LineAccess> batch, MemoryTraffic& traffic) {
    std::visit([&](auto& its) { its.access(batch, traffic); }, its_);
}

void CacheHierarchy::access(std::span<const PageRun> batch, MemoryTraffic& traffic,
                            std::vector<std::size_t>* ends) {
    std::visit([&](auto& its) { its.access(batch, traffic, ends); }, its_);
}

void CacheHierarchy::access(std::span<const std::uint64_t> lines,
                            std::span<const std::uint32_t> cores, std::span<const AccessKind> kinds,
                            MemoryTraffic& traffic) {
    hierarchy::require(lines.size() == cores.size() && lines.size() == kinds.size(),
                       "lines, cores and kinds must be of one length");
    std::vector<LineAccess> batch(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) batch[i] = {lines[i], cores[i], kinds[i]};
    access(batch, traffic);
}

void CacheHierarchy::access(std::span<const std::uint32_t> frames,
                            std::span<const std::uint64_t> lines,
                            std::span<const std::uint16_t> cores, std::span<const AccessKind> kinds,
                            MemoryTraffic& traffic) {
    hierarchy::require(frames.size() == lines.size() && frames.size() == cores.size() &&
                           frames.size() == kinds.size(),
                       "frames, lines, cores and kinds must be of one length");
    std::vector<PageRun> batch(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        batch[i] = {lines[i], frames[i], cores[i], kinds[i]};
    }
    access(batch, traffic);
}

void CacheHierarchy::become(const CacheHierarchy& other) {
    std::visit([&](auto& its) { its.become(std::get<std::decay_t<decltype(its)>>(other.its_)); },
               its_);
}

void CacheHierarchy::refill(std::span<const PageRun> uses) {
    std::visit([&](auto& its) { its.refill(uses); }, its_);
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

bool CacheHierarchy::places_are_apart() const {
    return std::visit([](const auto& its) { return its.places_are_apart(); }, its_);
}

std::uint64_t CacheHierarchy::total(CacheCounter counter) const {
    std::uint64_t sum = 0;
    for (std::uint32_t core = 0; core < cores(); ++core) sum += count(core, counter);
    return sum;
}

const MemoryTraffic& CacheHierarchy::traffic_beside() const {
    return std::visit([](const auto& its) -> const MemoryTraffic& { return its.traffic_beside(); },
                      its_);
}

std::uint64_t CacheHierarchy::total_beside(CacheCounter counter) const {
    const std::optional<L3Beside>& beside = std::visit(
        [](const auto& its) -> const std::optional<L3Beside>& { return its.beside(); }, its_);
    return L3Beside::counts(counter) ? beside->count(counter) : total(counter);
}

bool CacheHierarchy::has_beside() const {
    return std::visit([](const auto& its) { return its.beside().has_value(); }, its_);
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
