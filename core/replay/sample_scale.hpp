// The one place where sampled counts become those of the whole node: by the lines that a phase
// moved of an object over those of them that were simulated. (A ratio estimate: how many pages of a
// small object happen to be sampled drops out.)
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/replay/counters.hpp"

namespace pagelens {

class SampleScale {
  public:
    SampleScale(unsigned phases, unsigned objects)
        : objects_(objects),
          seen_(std::size_t{phases} * objects),
          simulated_(seen_.size()),
          to_caches_(phases),
          through_caches_(phases) {}

    // Lines that the program moves, of all ranks.
    void moved(unsigned phase, std::uint16_t object, std::uint64_t lines) {
        past_caches(phase, object, lines);
        to_caches(phase, lines);
    }
    // Lines of all ranks that caches in common see, or do not: pages that are copied elsewhere.
    void to_caches(unsigned phase, std::uint64_t lines) { to_caches_[phase] += lines; }
    void past_caches(unsigned phase, std::uint16_t object, std::uint64_t lines) {
        seen_[key(phase, object)] += lines;
    }
    // Counts the lines of sampled slots and, of lines that are moved, those that shared caches get.
    void simulated(unsigned phase, std::uint16_t object, std::uint64_t lines) {
        simulated_[key(phase, object)] += lines;
    }
    void through_caches(unsigned phase, std::uint64_t lines) { through_caches_[phase] += lines; }

    // `nominal`: one line in how many is simulated, for what has no lines to tell by.
    void scale(Counters& counters, double nominal) const {
        const auto ratio = [&](std::uint64_t all, std::uint64_t part) {
            return part == 0 ? nominal : static_cast<double>(all) / static_cast<double>(part);
        };
        if (!counters.caches.empty()) {
            for (std::size_t phase = 0; phase < to_caches_.size(); ++phase)
                multiply(std::span(counters.caches).subspan(phase * cache_counters, cache_counters),
                         ratio(to_caches_[phase], through_caches_[phase]));
        }
        std::vector<std::uint64_t> seen(objects_), simulated(objects_);
        for (std::size_t at = 0; at < seen_.size(); ++at) {
            multiply(std::span(counters.table).subspan(at * components, components),
                     ratio(seen_[at], simulated_[at]));
            seen[at % objects_] += seen_[at];
            simulated[at % objects_] += simulated_[at];
        }
        counters.collisions.scale(
            [&](std::uint16_t object) { return ratio(seen[object], simulated[object]); });
    }

  private:
    [[nodiscard]] std::size_t key(unsigned phase, std::uint16_t object) const {
        return std::size_t{phase} * objects_ + object;
    }
    static void multiply(std::span<std::uint64_t> values, double factor) {
        for (std::uint64_t& value : values)
            value = static_cast<std::uint64_t>(std::llround(static_cast<double>(value) * factor));
    }

    std::size_t objects_;
    std::vector<std::uint64_t> seen_;       // [phase][object]
    std::vector<std::uint64_t> simulated_;  // of these, in the sample
    std::vector<std::uint64_t> to_caches_;  // [phase]
    std::vector<std::uint64_t> through_caches_;
};

}  // namespace pagelens
