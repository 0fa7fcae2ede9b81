// The time of a load that must wait for the one before: a chase of pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "probes/memory.hpp"

namespace pagelens::probes {

struct LatencyResult {
    std::vector<double> seconds;  // of each repetition: of `loads` loads
    bool ok;                      // the chase met every place once before it came back
};

// Links one place in each `stride` bytes of the memory's first `footprint_bytes` into one random
// cycle, walks it once to warm up and to check it, and then follows `loads` more links in each
// repetition, by cpu. The place is a random line of its stride: with 64 every line of the footprint
// is visited, with 4096 one line a page, which separates what translation costs from what caches
// do: as many pages with a 64th of the lines. std::invalid_argument: fewer than 2 places, a stride
// that is no multiple of 64, a footprint beyond the memory or not of whole strides, loads or
// repeats of 0, cpu.
LatencyResult latency(const Memory& memory, std::size_t footprint_bytes, std::size_t stride,
                      std::size_t loads, std::size_t repeats, int cpu, std::uint64_t seed);

}  // namespace pagelens::probes
