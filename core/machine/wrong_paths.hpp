// Finds where the path that a core follows after a wrong guess of a branch meets the right one.
//
// Until the branch is executed, the core executes what it guessed. If both paths of the branch meet
// soon, as those around an `if` and at the end of an inner loop do, it then executes the right
// instructions, and their loads fetch lines that the program will need. So a wrong guess hides the
// latency of these lines as a right one does (Mutlu, Kim, Armstrong, Patt: An Analysis of the
// Performance Impact of Wrong-Path Memory References on Out-of-Order and Runahead Execution
// Processors, IEEE Transactions on Computers 54(12), 2005).
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>

#include "core/machine/code.hpp"

namespace pagelens {

using RegisterSet = std::bitset<code_registers>;

struct Meeting {
    std::size_t block = 0;         // the number, in the run, of the first that both paths have
    std::size_t instructions = 0;  // of the wrong path before it
    RegisterSet unlike;            // registers that may hold another value by the wrong path
};

class WrongPaths {
  public:
    // They must outlive it.
    WrongPaths(const Code& code, std::span<const std::uint32_t> blocks)
        : code_(code), blocks_(blocks) {}

    // Takes for the wrong path after the i-th block that which the run took the last time when it
    // went the other way there, or else the next time. Both are followed until they come back to
    // the branch: beyond that, the paths of a loop have everything in common.
    [[nodiscard]] std::optional<Meeting> after(std::size_t i) const {
        const std::optional<std::size_t> other = other_way(i);
        if (!other) return std::nullopt;
        const auto right = until_again(i), wrong = until_again(*other);
        for (std::size_t n = 0; n < right.size(); ++n) {
            const auto meets = std::ranges::find(wrong, right[n]);
            if (meets == wrong.end()) continue;
            const auto before = wrong.first(static_cast<std::size_t>(meets - wrong.begin()));
            const Values by_right = values_after(right.first(n)), by_wrong = values_after(before);
            Meeting found{.block = i + 1 + n, .instructions = instructions(before), .unlike = {}};
            for (std::size_t r = 1; r < code_registers; ++r)
                found.unlike.set(r, by_right[r] != by_wrong[r]);
            return found;
        }
        return std::nullopt;
    }

  private:
    static constexpr std::size_t longest = 16;  // blocks until paths meet

    [[nodiscard]] std::span<const std::uint32_t> until_again(std::size_t i) const {
        const auto path = blocks_.subspan(i + 1, std::min(longest, blocks_.size() - i - 1));
        const auto again = std::ranges::find(path, blocks_[i]);
        return path.first(static_cast<std::size_t>(again - path.begin()) +
                          (again != path.end() ? 1 : 0));
    }
    [[nodiscard]] bool goes_another_way(std::size_t k, std::size_t i) const {
        return blocks_[k] == blocks_[i] && blocks_[k + 1] != blocks_[i + 1];
    }
    [[nodiscard]] std::optional<std::size_t> other_way(std::size_t i) const {
        if (i + 1 >= blocks_.size()) return std::nullopt;
        for (std::size_t k = i; k-- > 0;)
            if (goes_another_way(k, i)) return k;
        for (std::size_t k = i + 1; k + 1 < blocks_.size(); ++k)
            if (goes_another_way(k, i)) return k;
        return std::nullopt;
    }
    // Registers whose values are made alike, of the same values, have the same number here.
    using Values = std::array<std::uint64_t, code_registers>;

    static std::uint64_t mixed(std::uint64_t with, std::uint64_t value) {
        with = (with ^ value) * 0x9e3779b97f4a7c15u;
        return with ^ (with >> 29);
    }
    [[nodiscard]] Values values_after(std::span<const std::uint32_t> path) const {
        Values held;
        std::iota(held.begin(), held.end(), std::uint64_t{0});
        for (const std::uint32_t block : path)
            for (const CodeInstruction& one : code_.block(block)) {
                std::uint64_t made = mixed(static_cast<std::uint64_t>(one.operation),
                                           static_cast<std::uint64_t>(one.load));
                for (const auto r : one.sources) made = mixed(made, held[r]);
                for (const auto r : one.address) made = mixed(made, held[r]);
                made = mixed(made, static_cast<std::uint64_t>(one.constant));
                made = mixed(made, static_cast<std::uint64_t>(one.displacement));
                for (std::size_t n = 0; n < one.results.size(); ++n)
                    if (one.results[n] != 0) held[one.results[n]] = mixed(made, n);
            }
        return held;
    }
    [[nodiscard]] std::size_t instructions(std::span<const std::uint32_t> path) const {
        std::size_t all = 0;
        for (const std::uint32_t block : path) all += code_.block(block).size();
        return all;
    }

    const Code& code_;
    std::span<const std::uint32_t> blocks_;
};

}  // namespace pagelens
