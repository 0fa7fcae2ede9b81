// What a core loses by a branch that it did not foresee: a loop branches by one byte after the
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens::probes {

inline constexpr std::size_t most_branches = 1 << 14;  // their bytes stay in an L1

struct BranchesResult {
    std::vector<double> seconds;  // of each repetition
};

// Passes through `branches` bytes in each repetition, with one branch for each byte. With `random`
// the bytes are zeros and ones that are drawn anew for each repetition, so that every second guess
// is wrong; otherwise all of them are ones.
// std::invalid_argument: branches of 0 or beyond most_branches, repeats of 0, cpu.
BranchesResult branches(std::size_t branches, bool random, std::size_t repeats, int cpu,
                        std::uint64_t seed);

}  // namespace pagelens::probes
