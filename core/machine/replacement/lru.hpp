// Least recently used: the victim is the line whose last use is the longest ago.
//
// LRU is what nearly all caches are assumed to have, and an order of more than 16 ways does not fit
// into 64 bits. The caches therefore keep the order of use themselves, and this type only names it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/machine/replacement/policy.hpp"

namespace pagelens {

struct Lru {
    static constexpr std::string_view name = "lru";
    static constexpr std::uint32_t most_ways = any_ways;

    explicit Lru(std::uint32_t /*ways*/) {}
};

}  // namespace pagelens
