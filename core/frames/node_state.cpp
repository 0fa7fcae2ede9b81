#include "core/frames/node_state.hpp"

#include <algorithm>
#include <cassert>

#include "core/frames/isolation.hpp"
#include "core/frames/sorts.hpp"

namespace pagelens {
namespace {

constexpr unsigned system_cpu = 0;             // where kernel work runs
constexpr std::uint32_t reclaim_cluster = 32;  // SWAP_CLUSTER_MAX

}  // namespace

MaybeFrame NodeState::alloc(const Request& request) {
    if (request.order == small_order) {
        const Run run = alloc_run(request, 1);
        return run.count == 0 ? MaybeFrame() : MaybeFrame(memory_.map().first_frame(run));
    }
    if (const auto frame = memory_.alloc(request, Memory::Mark::low)) return frame;
    reclaim(request.numas);
    return memory_.alloc(request, Memory::Mark::min);  // else the caller has small pages to go to
}

Run NodeState::reclaim_and_alloc(const Request& request, std::uint32_t most) {
    reclaim(request.numas);
    const Run run = memory_.alloc_run(request, Memory::Mark::min, most);
    if (run.count != 0) return run;
    memory_.drain();
    return memory_.alloc_run(request, Memory::Mark::none, most);
}

// Does as kswapd, which reclaims from the low watermark up to the high one.
void NodeState::reclaim(std::uint64_t numas) {
    if (memory_.kernel().reclaims_every_zone) {
        for (const Zone& zone : memory_.zones()) {
            if ((numas >> zone.spec().numa & 1) != 0)
                page_cache_.reclaim(memory_, system_cpu, zone);
        }
        memory_.drain(system_cpu);
        return;
    }
    while (memory_.below_high(numas) &&
           page_cache_.reclaim(memory_, system_cpu, reclaim_cluster, numas) > 0) {
        memory_.drain(system_cpu);
    }
}

std::uint32_t NodeState::make_room(unsigned numa, std::uint64_t slow) {
    std::int64_t above = memory_.above_promotion(numa);
    while (above < 0 && page_cache_.demote(memory_, system_cpu, reclaim_cluster, numa, slow) > 0) {
        memory_.drain(system_cpu);
        above = memory_.above_promotion(numa);
    }
    return static_cast<std::uint32_t>(std::max<std::int64_t>(-above, 0));
}

bool NodeState::cache_page(unsigned cpu) {
    const auto page = alloc({cpu, small_order});
    if (!page) return false;
    page_cache_.add(*page);
    if (page_cache_.needs_slab()) {
        const auto slab = alloc({cpu, small_order, MigrateType::reclaimable});
        if (slab) page_cache_.add_slab(*slab);
    }
    return true;
}

void NodeState::buffered_io(std::uint64_t frames, unsigned cpu) {
    for (std::uint64_t done = 0; done < frames; ++done) {
        if (!cache_page(cpu)) return;
    }
}

void NodeState::drop_caches(std::uint32_t stragglers, std::uint32_t pinned, Random& random) {
    page_cache_.shrink(memory_, system_cpu, stragglers, random);
    page_cache_.pin(memory_, pinned, random);
}

void NodeState::compact() { page_cache_.follow(pagelens::compact(memory_, system_cpu)); }

void NodeState::sort_for_cache(std::uint32_t slots, bool evacuating) {
    page_cache_.follow(pagelens::sort_for_cache(memory_, slots, evacuating, system_cpu));
}

void NodeState::sort_by_buckets(std::uint32_t slots) { pagelens::sort_by_buckets(memory_, slots); }

void NodeState::sort_by_address() { pagelens::sort_by_address(memory_); }

void NodeState::shuffle(Random& random) { pagelens::shuffle(memory_, random); }

std::uint32_t NodeState::fill_huge_pool(unsigned numa, std::uint32_t pages) {
    const auto take = [&] {
        return alloc({system_cpu, huge_order, MigrateType::movable, 1ull << numa});
    };
    bool compacted = false;
    for (std::uint32_t got = 0; got < pages; ++got) {
        auto page = take();
        if (!page && !compacted) {
            memory_.drain();  // as a request for a large block does, before it compacts and while
            compact();        // it does
            memory_.drain();
            compacted = true;
            page = take();
        }
        if (!page) return got;
        huge_pools_[numa].push_back(*page);
    }
    return pages;
}

bool NodeState::take_offline(Frame begin, Frame end) {
    std::vector<Move> moves;
    const bool done = pagelens::take_offline(memory_, begin, end, system_cpu, moves);
    page_cache_.follow(moves);
    return done;
}

void NodeState::bring_online(Frame begin, Frame end) {
    pagelens::bring_online(memory_, begin, end);
}

void NodeState::reserve(Frame begin, Frame end) {
    assert(begin.raw() % (1u << max_order) == 0 && end.raw() % (1u << max_order) == 0);
    Memmap& map = memory_.map();
    memory_.drain();
    for (Unit unit = map.unit_of(begin); unit < map.unit_of(end); ++unit) {
        if (!map.is_free(unit)) {
            memory_.zone_of(unit).take_parts(map, unit, map.whole(), MigrateType::unmovable);
            continue;
        }
        const unsigned level = map.free_level(unit);
        memory_.zone_of(unit).remove(map, unit, level);
        map.set_allocated(unit, level, MigrateType::unmovable);
    }
}

}  // namespace pagelens
