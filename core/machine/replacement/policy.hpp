// A replacement policy says which line of a full set makes room for another.
//
// One object serves all sets of a cache. What a policy knows of one set is a state of 64 bits,
// which the cache keeps beside the set's lines. Caches fill empty ways themselves, so a policy is
// asked for a victim only when its set is full.
//
// To add a policy, write its header in this folder and register it in policies.hpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace pagelens {

// `most_ways` of a policy whose state does not grow with the ways. A fully associative cache is one
// set with a way for every line, so these are the policies that it may have.
inline constexpr std::uint32_t any_ways = ~std::uint32_t{0};

template <class Policy>
concept ReplacementPolicy =
    std::constructible_from<Policy, std::uint32_t> &&  // of caches with so many ways
    requires(const Policy policy, std::uint64_t& state, std::uint32_t way, std::uint64_t number) {
        // The name in machine files and in Python, which is an identifier.
        { Policy::name } -> std::convertible_to<std::string_view>;
        { Policy::most_ways } -> std::convertible_to<std::uint32_t>;
        // The state of an empty set: the cache's seed, and the set's number in the cache.
        { policy.first_state(number, number) } -> std::same_as<std::uint64_t>;
        { policy.on_hit(state, way) } -> std::same_as<void>;   // the line of `way` is used
        { policy.on_fill(state, way) } -> std::same_as<void>;  // `way` has a new line
        // The way whose line goes. on_fill() follows for this way.
        { policy.victim(state) } -> std::same_as<std::uint32_t>;
    };

}  // namespace pagelens
