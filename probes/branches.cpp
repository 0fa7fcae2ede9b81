#include "probes/branches.hpp"

#include <span>
#include <stdexcept>
#include <string>

#include "core/random/split_mix64.hpp"
#include "probes/clock.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

// The empty statement keeps the compiler from doing without the branch.
void pass(std::span<const std::uint8_t> bytes) {
    for (const std::uint8_t byte : bytes) {
        if (byte != 0) asm volatile("");
    }
}

}  // namespace

BranchesResult branches(std::size_t branches, bool random, std::size_t repeats, int cpu,
                        std::uint64_t seed) {
    if (branches == 0 || branches > most_branches) {
        throw std::invalid_argument("branches: " + std::to_string(branches) + "; 1 to " +
                                    std::to_string(most_branches));
    }
    if (repeats == 0) throw std::invalid_argument("repeats: 0; at least 1");
    BranchesResult result;
    result.seconds.reserve(repeats);
    run_pinned(std::span<const int>(&cpu, 1), [&](const Member&) {
        std::vector<std::uint8_t> bytes(branches, 1);
        for (std::size_t repeat = 0; repeat < repeats && !stop_requested(); ++repeat) {
            if (random) {
                for (std::uint8_t& byte : bytes)
                    byte = static_cast<std::uint8_t>(SplitMix64::below(seed, 2));
            }
            const std::int64_t begin = now_ns();
            pass(bytes);
            result.seconds.push_back(1e-9 * static_cast<double>(now_ns() - begin));
        }
    });
    check_stop();
    return result;
}

}  // namespace pagelens::probes
