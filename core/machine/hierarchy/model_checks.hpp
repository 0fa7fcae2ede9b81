// Checks whether a model of caches can be simulated, and derives its geometry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/machine/cache_model.hpp"

namespace pagelens {

namespace hierarchy {

// Throws std::invalid_argument with `what` unless `good`.
void require(bool good, const std::string& what);
// Throws std::invalid_argument for a model that cannot be; the message names the part and the
// range.
void check(const HierarchyModel& model);

// The first line that such a cache cannot tell from a lower one.
[[nodiscard]] std::uint64_t end_of_lines(const CacheGeometry& cache);
// Every cache of a level draws from a random sequence of its own.
[[nodiscard]] std::vector<std::uint64_t> seeds_of(const HierarchyModel& model, unsigned level,
                                                  std::uint32_t caches);
// Groups of cores that share an L2.
[[nodiscard]] std::uint32_t tiles_of(const HierarchyModel& model);
[[nodiscard]] std::uint32_t slices_of(const HierarchyModel& model);
// The fewest sets of the parts whose sets lines' bits choose; 2^31 if there is none.
[[nodiscard]] std::uint32_t fewest_sets_of(const HierarchyModel& model);
[[nodiscard]] bool is_plain(const HierarchyModel& model);
// Whether lines at different places of their pages share no set of any part.
[[nodiscard]] bool places_are_apart(const HierarchyModel& model);

}  // namespace hierarchy

}  // namespace pagelens
