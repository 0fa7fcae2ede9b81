// The static count of conflicts beside a slow obvious one: a map from (slice, set) to its lines,
// the slice bit by bit.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "core/machine/set_counts.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t sets = 2048, ways = 12;
constexpr std::uint64_t page_lines = 32768;  // of 2 MiB

// A Skylake-SP's 24 slices (machines/hashes/skx-24.toml).
const Masks low{0x14c896c740, 0x0a57f311c0, 0x2c56e59300};
const HashForm::High high{
    {0x138bca3080, 0x38bca30800, 0x1c5e518400, 0x0e2f28c200, 0x2717946100, 0x09c5e51840}, 42, 1};

std::uint64_t field(const Masks& masks, std::uint64_t address) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < masks.size(); ++i) {
        value |= static_cast<std::uint64_t>(std::popcount(masks[i] & address) & 1) << i;
    }
    return value;
}

std::uint64_t slow_excess(const std::vector<std::uint64_t>& pages) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> lines;
    for (const std::uint64_t page : pages) {
        for (std::uint64_t line = 0; line < page_lines; ++line) {
            const std::uint64_t address = page + 64 * line, h = field(high.masks, address);
            const std::uint64_t upper = h >= high.threshold ? 2 : h & 1;
            ++lines[{8 * upper + field(low, address), address / 64 % sets}];
        }
    }
    std::uint64_t beyond = 0;
    for (const auto& [set, count] : lines) beyond += count > ways ? count - ways : 0;
    return beyond;
}

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main() {
    constexpr std::size_t rounds = 100, pages_a_round = 12;
    std::vector<std::uint64_t> pages(pages_a_round);
    const std::vector<std::uint32_t> lines(pages_a_round, page_lines);
    SetCounts counts(AddressHash({{{low, high}}, 24, {}}), sets, ways);
    std::uint64_t fast_sum = 0, slow_sum = 0, slow_rounds = 0;
    double fast_s = 0, slow_s = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < pages.size(); ++i) {
            pages[i] = (round * 7919 + i * i * 104'729) % 49'152 << 21;  // of 96 GiB
        }
        const double begin = seconds();
        counts.clear();
        counts.add({pages, lines});
        fast_s += seconds() - begin;
        if (round % 20 != 0) continue;
        fast_sum += counts.excess();
        const double slow_begin = seconds();
        slow_sum += slow_excess(pages);
        slow_s += seconds() - slow_begin;
        ++slow_rounds;
    }
    if (fast_sum != slow_sum) {
        std::fprintf(stderr, "bench_conflicts: the counts differ\n");
        return EXIT_FAILURE;
    }
    const double lines_a_round = pages_a_round * static_cast<double>(page_lines) / 1e6;
    const double fast = static_cast<double>(rounds) * lines_a_round / fast_s;
    const double slow = static_cast<double>(slow_rounds) * lines_a_round / slow_s;
    std::printf(
        "{\"name\": \"static conflicts: lines of 2 MiB pages, snoop filter of 24 slices\", "
        "\"value\": %.1f, \"unit\": \"M lines/s\", \"required\": \">= 25\", "
        "\"note\": \"slow obvious reference %.1f, equal counts\"}\n",
        fast, slow);
}
