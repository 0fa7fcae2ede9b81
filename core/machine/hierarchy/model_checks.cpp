#include "core/machine/hierarchy/model_checks.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/address/units.hpp"
#include "core/machine/cache_rows.hpp"
#include "core/machine/physical_cache.hpp"
#include "core/machine/snoop_filter.hpp"
#include "core/random/split_mix64.hpp"

namespace pagelens {
namespace {

constexpr std::uint64_t most_lines_of_cache = 1ull << 30;  // of one cache: 64 GiB
constexpr std::uint32_t most_slices = 256;                 // a line's slice is a byte beside it
static_assert(CacheGeometry::most_ways == CacheRows<false>::most_ways);

}  // namespace

namespace hierarchy {

void require(bool good, const std::string& what) {
    if (!good) throw std::invalid_argument(what);
}

// "lru or random"
static std::string fully_associative_names() {
    std::string names;
    for (const auto& [name, most_ways] : replacement_facts) {
        if (most_ways == any_ways) (names += names.empty() ? "" : " or ") += name;
    }
    return names;
}

static void check(const CacheGeometry& cache, std::uint32_t slices, const std::string& name) {
    require(std::has_single_bit(cache.sets),
            name + ": sets must be a power of two, not " + std::to_string(cache.sets));
    require(cache.ways >= 1 && cache.ways <= CacheGeometry::most_ways,
            name + ": ways must be 1 to 64, not " + std::to_string(cache.ways));
    require(cache.lines() * slices <= most_lines_of_cache, name + ": at most 2^30 lines");
    if (cache.fully_associative) {
        require(serves_fully_associative(cache.replacement),
                name + ": a fully associative cache has replacement " + fully_associative_names());
        return;
    }
    const auto [policy, most_ways] = facts_of(cache.replacement);
    require(cache.ways <= most_ways, name + ": replacement " + std::string(policy) +
                                         " takes at most " + std::to_string(most_ways) +
                                         " ways, not " + std::to_string(cache.ways));
}

std::uint64_t end_of_lines(const CacheGeometry& cache) {
    return cache.fully_associative ? ~0ull
                                   : cache.sets * (std::uint64_t{CacheRows<true>::most_tag} + 1);
}

std::vector<std::uint64_t> seeds_of(const HierarchyModel& model, unsigned level,
                                    std::uint32_t caches) {
    std::vector<std::uint64_t> seeds;
    for (std::uint32_t i = 0; i < caches; ++i)
        seeds.push_back(SplitMix64::begin(model.seed, std::uint64_t{level} << 32 | i));
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
    if (model.l3_beside) {
        check(*model.l3_beside, slices, "l3_beside");
        require(model.l3 && model.l3->inclusion == Inclusion::victim && !model.l1,
                "l3_beside: only beside a victim l3, and not with an l1");
    }
    require(!model.writes_at_once || !model.l1, "writes_at_once: not with an l1");
    require(tiles_of(model) <= most_holders,
            "cores: at most 64 L2 caches in one hierarchy, not " + std::to_string(tiles_of(model)));
}

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

bool places_are_apart(const HierarchyModel& model) {
    return fewest_sets_of(model) >= lines_per_page && !model.l2.geometry.fully_associative &&
           !(model.l1 && model.l1->geometry.fully_associative) &&
           !(model.l3 && model.l3->geometry.fully_associative) && !model.l3_beside;
}

bool is_plain(const HierarchyModel& model) {
    return pagelens::is_plain(model.l2.geometry) &&
           (!model.l1 || pagelens::is_plain(model.l1->geometry)) &&
           (!model.l3 || pagelens::is_plain(model.l3->geometry)) &&
           (!model.snoop_filter || model.snoop_filter->fully_associative ||
            pagelens::is_plain(*model.snoop_filter));
}

}  // namespace hierarchy
}  // namespace pagelens
