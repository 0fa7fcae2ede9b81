// The replacement policies that a cache may have, and how a cache holds the one it has.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "core/machine/replacement/bimodal.hpp"
#include "core/machine/replacement/lru.hpp"
#include "core/machine/replacement/policy.hpp"
#include "core/machine/replacement/random_victim.hpp"
#include "core/machine/replacement/tree_plru.hpp"

namespace pagelens {

// A policy is registered at the end of this list. The values of Replacement, the names in Python
// and in machine files, and the caches' dispatch follow from the list.
using ReplacementPolicies = std::variant<Lru, TreePlru, RandomVictim, Bimodal>;

// A policy by its position in the list.
enum class Replacement : std::uint8_t {};

struct PolicyFacts {
    std::string_view name;
    std::uint32_t most_ways = 0;
};

namespace detail {

template <class... Policies>
struct PolicyList;

template <class... Policies>
struct PolicyList<std::variant<Policies...>> {
    static_assert(((std::same_as<Policies, Lru> || ReplacementPolicy<Policies>) && ...));
    static constexpr std::array<PolicyFacts, sizeof...(Policies)> facts{
        PolicyFacts{Policies::name, Policies::most_ways}...};

    template <class Policy>
    static consteval std::size_t position() {
        std::size_t at = 0;
        static_cast<void>(((std::same_as<Policies, Policy> || (++at, false)) || ...));
        return at;
    }
};

using AllPolicies = PolicyList<ReplacementPolicies>;

}  // namespace detail

// The facts by position in the list.
inline constexpr auto& replacement_facts = detail::AllPolicies::facts;

inline PolicyFacts facts_of(Replacement replacement) {
    return replacement_facts[static_cast<std::size_t>(replacement)];
}

// The value for a policy's type: replacement_by<Lru>.
template <class Policy>
inline constexpr auto replacement_by = Replacement{detail::AllPolicies::position<Policy>()};

inline bool serves_fully_associative(Replacement replacement) {
    return facts_of(replacement).most_ways == any_ways;
}

// The policy of a cache of `ways` ways, at most those that it takes.
template <std::size_t position = 0>
ReplacementPolicies make_policy(Replacement replacement, std::uint32_t ways) {
    if constexpr (position + 1 < std::variant_size_v<ReplacementPolicies>) {
        if (replacement != Replacement{position})
            return make_policy<position + 1>(replacement, ways);
    }
    return ReplacementPolicies(std::in_place_index<position>, ways);
}

// Calls do_with(policy). The policy must not be Lru, whose order the caller keeps.
template <std::size_t position = 1, class Do>
auto with_policy(const ReplacementPolicies& policies, Do&& do_with) {
    static_assert(replacement_by<Lru> == Replacement{0});
    if constexpr (position + 1 < std::variant_size_v<ReplacementPolicies>) {
        if (policies.index() != position)
            return with_policy<position + 1>(policies, std::forward<Do>(do_with));
    }
    return do_with(*std::get_if<position>(&policies));
}

}  // namespace pagelens
