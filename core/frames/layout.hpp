// The memory of a node: its zones, with what Linux derives from their sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/frames/kernel_rules.hpp"

namespace pagelens {

enum class ZoneKind : std::uint8_t { dma, dma32, normal };

// A zone as /proc/zoneinfo shows it; all in frames, which are the kernel's pages: of 4 KiB, or of
// 4 KiB << Layout::page_order.
struct ZoneSpec {
    ZoneKind kind;
    unsigned numa;
    std::uint32_t begin, end;           // first frame, and one past the last
    std::uint32_t min, low, high;       // watermarks
    std::uint32_t protection;           // kept free of requests that a higher zone could serve
    std::uint32_t pcp_high, pcp_batch;  // of each CPU's lists
};

inline constexpr std::uint32_t dma_end = 4096;           // 16 MiB
inline constexpr std::uint32_t dma32_end = 1024 * 1024;  // 4 GiB

struct Layout {
    std::uint32_t frames = 0;            // numbers run from 0 to here
    std::vector<ZoneSpec> zones;         // ascending, without overlap
    std::vector<std::uint8_t> cpu_numa;  // [cpu] its NUMA node
    // [NUMA node * nodes + node] the firmware's distances (SLIT). Without them, nodes are as far
    // apart as their numbers say, upwards and then around.
    std::vector<std::uint8_t> distances = {};
    unsigned page_order = 0;  // log2 of the kernel's page in units of 4 KiB
    KernelRules kernel = {};
};

// Returns the layout of `frames` frames and `cpus` CPUs in equal parts on `numas` NUMA nodes: DMA
// below 16 MiB, DMA32 for the memory below 4 GiB, Normal above. Firmware may keep addresses below
// 4 GiB for devices and put the memory there above; `low_frames` says how many frames stay below.
// Frames are numbered without such a hole. Throws std::invalid_argument for sizes that do not fit.
Layout linux_layout(std::uint32_t frames, unsigned numas, unsigned cpus,
                    std::uint32_t low_frames = dma32_end, unsigned page_order = 0,
                    const KernelRules& kernel = {});
// Returns the layout of NUMA nodes of these frames each, in order of address, and of CPUs on them.
// `distances` are those of Layout. Throws std::invalid_argument for sizes that do not fit.
Layout numa_layout(const std::vector<std::uint32_t>& frames, std::vector<std::uint8_t> cpu_numa,
                   std::vector<std::uint8_t> distances, std::uint32_t low_frames = dma32_end,
                   unsigned page_order = 0, const KernelRules& kernel = {});
// Returns the NUMA nodes [node] in the order in which each node's requests try them, as Linux
// orders them at boot (build_zonelists() and find_next_best_node() of mm/page_alloc.c, 5.16 and
// later): nearest first, a node with CPUs after one without at the same distance, and of equals the
// one that fewer nodes have as an early choice.
std::vector<std::vector<unsigned>> fallback_orders(unsigned nodes,
                                                   const std::vector<std::uint8_t>& cpu_numa,
                                                   const std::vector<std::uint8_t>& distances);
// Fills in the same sizes for zones whose kind, numa, begin and end are given.
void fill_in_sizes(Layout& layout);
// Returns the bare buddy system, for tests and yardsticks: one zone, no watermarks, no per-cpu
// lists.
Layout bare_layout(std::uint32_t frames);

}  // namespace pagelens
