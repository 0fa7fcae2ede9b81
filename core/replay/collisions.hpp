// Which object pushes out whose lines. Most pairs of objects never meet, and a program can have
// tens of thousands of objects, so only pairs that met are kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "core/accesses/page_map.hpp"

namespace pagelens {

struct Collision {
    std::uint16_t object = 0, victim = 0;
    std::uint64_t lines = 0;  // of the victim, pushed out by the object

    bool operator==(const Collision&) const = default;
};

class Collisions {
  public:
    void add(std::uint16_t object, std::uint16_t victim, std::uint64_t lines) {
        const std::uint64_t pair = std::uint64_t{object} << 16 | victim;
        std::uint32_t at = places_.find(pair);
        if (at == PageMap::absent) {
            at = static_cast<std::uint32_t>(pairs_.size());
            places_.set(pair, at);
            pairs_.push_back({object, victim, 0});
        }
        pairs_[at].lines += lines;
    }

    // Multiplies the lines of each pair by what `factor` says of its object.
    template <class Factor>
    void scale(const Factor& factor) {
        for (Collision& pair : pairs_)
            pair.lines = static_cast<std::uint64_t>(
                std::llround(static_cast<double>(pair.lines) * factor(pair.object)));
    }

    // All pairs, in the order of their objects and then of their victims.
    [[nodiscard]] std::vector<Collision> sorted() const {
        std::vector<Collision> all = pairs_;
        std::ranges::sort(all, std::less{}, [](const Collision& pair) {
            return std::tuple(pair.object, pair.victim);
        });
        return all;
    }

    bool operator==(const Collisions& other) const { return sorted() == other.sorted(); }

  private:
    PageMap places_;  // of a pair in pairs_
    std::vector<Collision> pairs_;
};

}  // namespace pagelens
