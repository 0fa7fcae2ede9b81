#include "core/frames/layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/frames/migrate_type.hpp"

namespace pagelens {
namespace {

constexpr std::uint32_t block = 1u << max_order;
constexpr std::uint64_t max_numa_nodes = 1024;  // MAX_NUMNODES of Debian's kernels

// Free memory that Linux keeps, in frames: the square root rule of init_per_zone_wmark_min(),
// raised by khugepaged (set_recommended_min_free_kbytes()) to what mobility grouping needs.
double kept_free_frames(const Layout& layout) {
    double frames = 0;
    for (const ZoneSpec& zone : layout.zones) frames += zone.end - zone.begin;
    const double frame_kilobytes = 4u << layout.page_order;
    const double kilobytes = std::clamp(std::floor(std::sqrt(frames * frame_kilobytes * 16)), 128.0,
                                        static_cast<double>(layout.kernel.most_min_free_kilobytes));
    // A page table of larger pages has more entries, and so maps more pages as one.
    const double pageblock = 1u << (pageblock_order + layout.page_order);
    const auto zones = static_cast<double>(layout.zones.size());
    const double recommended =
        std::min(pageblock * zones * (2 + pcp_types * pcp_types), std::floor(frames / 20));
    return std::max(kilobytes / frame_kilobytes, recommended);
}

// Returns what zone_batchsize() does; 0 for a zone of a few MiB.
std::uint32_t batch_frames(std::uint32_t managed, const Layout& layout) {
    const std::uint32_t most = layout.kernel.batch_kilobytes / (4u << layout.page_order);
    const std::uint32_t quarter = std::max(1u, std::min(managed >> 10, most) / 4);
    return std::bit_floor(quarter + quarter / 2) - 1;
}

// Returns the zone's sysctl_lowmem_reserve_ratio: it keeps this part of the zones above it.
std::uint32_t reserve_ratio(ZoneKind kind) { return kind == ZoneKind::normal ? 32 : 256; }

}  // namespace

void fill_in_sizes(Layout& layout) {
    double all = 0;
    for (const ZoneSpec& zone : layout.zones) all += zone.end - zone.begin;
    const double kept = kept_free_frames(layout);
    for (ZoneSpec& zone : layout.zones) {
        const std::uint32_t managed = zone.end - zone.begin;
        zone.min = static_cast<std::uint32_t>(kept * managed / all);
        const auto scaled = static_cast<std::uint32_t>(std::uint64_t{managed} *
                                                       layout.kernel.watermark_scale / 10000);
        const std::uint32_t step = std::max(zone.min / 4, scaled);
        zone.low = zone.min + step;
        zone.high = zone.low + step;
        std::uint32_t above = 0;
        for (const ZoneSpec& other : layout.zones) {
            if (other.numa == zone.numa && other.kind > zone.kind) above += other.end - other.begin;
        }
        zone.protection = above / reserve_ratio(zone.kind);
        const std::uint32_t batch = batch_frames(managed, layout);
        zone.pcp_batch = std::max(1u, batch);
        const auto cpus = static_cast<std::uint32_t>(
            std::count(layout.cpu_numa.begin(), layout.cpu_numa.end(), zone.numa));
        const auto sharers = cpus == 0 ? static_cast<std::uint32_t>(layout.cpu_numa.size()) : cpus;
        zone.pcp_high = layout.kernel.high_in_batches > 0
                            ? layout.kernel.high_in_batches * batch
                            : std::max(zone.low / sharers, 4 * zone.pcp_batch);
    }
}

Layout linux_layout(std::uint32_t frames, unsigned numas, unsigned cpus, std::uint32_t low_frames,
                    unsigned page_order, const KernelRules& kernel) {
    if (numas == 0 || numas > 64) {
        throw std::invalid_argument("numas: " + std::to_string(numas) + " is not from 1 to 64");
    }
    if (cpus == 0) throw std::invalid_argument("cpus: must be at least 1");
    if (frames / numas < block) {
        throw std::invalid_argument("frames: " + std::to_string(frames) +
                                    " is less than 4 MiB for each of " + std::to_string(numas) +
                                    " NUMA nodes");
    }
    const std::uint32_t share = frames / numas / block * block;
    std::vector<std::uint32_t> of_nodes(numas, share);
    of_nodes.back() = frames - (numas - 1) * share;
    std::vector<std::uint8_t> cpu_numa;
    for (unsigned cpu = 0; cpu < cpus; ++cpu)
        cpu_numa.push_back(static_cast<std::uint8_t>(cpu * numas / cpus));
    return numa_layout(of_nodes, std::move(cpu_numa), {}, low_frames, page_order, kernel);
}

Layout numa_layout(const std::vector<std::uint32_t>& frames, std::vector<std::uint8_t> cpu_numa,
                   std::vector<std::uint8_t> distances, std::uint32_t low_frames,
                   unsigned page_order, const KernelRules& kernel) {
    if (low_frames <= dma_end || low_frames > dma32_end || low_frames % block != 0) {
        throw std::invalid_argument("low_frames: " + std::to_string(low_frames) +
                                    " are not 20 MiB to 4 GiB in steps of 4 MiB");
    }
    const std::size_t numas = frames.size();
    if (numas == 0 || numas > 64 || cpu_numa.empty())
        throw std::invalid_argument("numas: needs 1 to 64 NUMA nodes and at least one CPU");
    if (!distances.empty() && distances.size() != numas * numas)
        throw std::invalid_argument("distances: needs one from each NUMA node to each");
    if (page_order > 4) {
        throw std::invalid_argument("page_order: " + std::to_string(page_order) +
                                    " is not from 0 (4 KiB) to 4 (64 KiB)");
    }
    Layout layout;
    layout.cpu_numa = std::move(cpu_numa);
    layout.distances = std::move(distances);
    layout.page_order = page_order;
    layout.kernel = kernel;
    for (unsigned numa = 0; numa < numas; ++numa) {
        const bool last = numa + 1 == numas;
        if (frames[numa] < block || (!last && frames[numa] % (1u << pageblock_order) != 0))
            throw std::invalid_argument("frames: a NUMA node has at least 4 MiB, in whole 2 MiB");
        const std::uint32_t begin = layout.frames, end = begin + frames[numa];
        const std::uint32_t borders[] = {0, dma_end, low_frames, ~0u};
        for (unsigned kind = 0; kind < 3; ++kind) {
            const std::uint32_t from = std::max(begin, borders[kind]);
            const std::uint32_t to = std::min(end, borders[kind + 1]);
            if (from >= to) continue;
            layout.zones.push_back({static_cast<ZoneKind>(kind), numa, from, to, 0, 0, 0, 0, 0, 0});
        }
        layout.frames = end;
    }
    fill_in_sizes(layout);
    return layout;
}

std::vector<std::vector<unsigned>> fallback_orders(unsigned nodes,
                                                   const std::vector<std::uint8_t>& cpu_numa,
                                                   const std::vector<std::uint8_t>& distances) {
    std::vector<std::vector<unsigned>> orders(nodes);
    if (distances.empty()) {
        for (unsigned node = 0; node < nodes; ++node)
            for (unsigned step = 0; step < nodes; ++step)
                orders[node].push_back((node + step) % nodes);
        return orders;
    }
    std::vector<std::uint64_t> load(nodes);  // node_load[], which nodes in turn add to
    const auto distance = [&](unsigned a, unsigned b) { return distances[a * nodes + b]; };
    for (unsigned node = 0; node < nodes; ++node) {
        std::vector<bool> used(nodes);
        for (unsigned previous = node; orders[node].size() < nodes;) {
            unsigned best = node;
            if (!orders[node].empty()) {
                std::uint64_t least = ~0ull;
                for (unsigned n = 0; n < nodes; ++n) {
                    if (used[n]) continue;
                    std::uint64_t value = distance(node, n) + std::uint64_t{n < node};
                    value += std::ranges::count(cpu_numa, n) != 0 ? 1 : 0;
                    value = value * max_numa_nodes + load[n];
                    if (value < least) least = value, best = n;
                }
                if (distance(node, best) != distance(node, previous)) ++load[best];
            }
            used[best] = true;
            orders[node].push_back(best);
            previous = best;
        }
    }
    return orders;
}

Layout bare_layout(std::uint32_t frames) {
    return {frames, {{ZoneKind::normal, 0, 0, frames, 0, 0, 0, 0, 0, 0}}, {0}};
}

}  // namespace pagelens
