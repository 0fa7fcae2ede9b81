// Declared loops for property tests.
#pragma once

#include <array>
#include <utility>

#include "core/accesses/sweeps.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

// Some arrays of about `most` pages at most, and sweeps over parts of them, forward from any page.
inline SweepLoops drawn_loops(Random& random, std::uint32_t most = 60) {
    const unsigned threads = 1 + random.below(4), arrays = 1 + random.below(3);
    SweepLoops loops{.array_pages = {}, .sweeps = {}, .phase_repeats = {1, 2}, .threads = threads};
    for (unsigned array = 0; array < arrays; ++array)
        loops.array_pages.push_back(threads + random.below(random.below(2) == 0 ? 9 : most));
    for (unsigned phase = 0; phase < 2; ++phase) {
        Sweep sweep{phase, random.below(2) == 0, 4.0, {}};
        for (unsigned stream = 0; stream <= random.below(4); ++stream) {
            constexpr std::array walks{Walk::parts, Walk::parts, Walk::shared, Walk::serial};
            constexpr std::array kinds{StreamKind::read, StreamKind::write,
                                       StreamKind::stream_store};
            sweep.streams.push_back(
                {.array = random.below(arrays),
                 .kind = kinds[random.below(3)],
                 .shift =
                     random.below(2) == 0 ? 0 : static_cast<std::int64_t>(random.below(90)) - 45,
                 .pages = random.below(3) == 0 ? threads + random.below(most) : 0,
                 .stride = random.below(5) == 0 ? 1.5 : 1,
                 .walk = walks[random.below(4)]});
        }
        if (random.below(2) == 0) sweep.unmapped.push_back(random.below(arrays));
        loops.sweeps.push_back(std::move(sweep));
    }
    return loops;
}

// Sweeps whose threads walk through their parts of whole arrays, each once.
inline SweepLoops drawn_whole_walks(Random& random) {
    const unsigned threads = 1 + random.below(4), arrays = 1 + random.below(3);
    SweepLoops loops{.array_pages = {}, .sweeps = {}, .phase_repeats = {1, 2}, .threads = threads};
    const std::uint32_t pages = threads * (70 + random.below(random.below(2) == 0 ? 30 : 500));
    for (unsigned array = 0; array < arrays; ++array)
        loops.array_pages.push_back(pages - (random.below(4) == 0 ? random.below(3 * threads) : 0));
    for (unsigned sweep = 0; sweep < 3; ++sweep) {
        Sweep all{sweep / 2, sweep == 0, 4.0, {}};
        for (unsigned array = 0; array < arrays; ++array) {
            constexpr std::array kinds{StreamKind::read, StreamKind::write,
                                       StreamKind::stream_store};
            if (sweep == 0 || random.below(4) != 0)
                all.streams.push_back({.array = array, .kind = kinds[random.below(3)]});
        }
        loops.sweeps.push_back(std::move(all));
    }
    return loops;
}

}  // namespace pagelens
