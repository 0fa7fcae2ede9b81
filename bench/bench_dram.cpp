// Requests a second through a DRAM, beside the ticking reference of the tests, with equal counts.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "core/machine/dram.hpp"
#include "tests/cpp/reference_dram.hpp"

using namespace pagelens;

namespace {

constexpr unsigned rounds = 5;

// Seconds of this thread's processor time: what else runs on the machine counts less.
double seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Masks bits(std::initializer_list<unsigned> numbers) {
    Masks masks;
    for (const unsigned bit : numbers) masks.push_back(std::uint64_t{1} << bit);
    return masks;
}

// DDR4-2400, 16 GiB: the map and timings of machines/dram/ddr4-2400-2rank.toml.
DramConfig ddr4_2400() {
    DramConfig config;
    config.map.offset_bits = 3;
    config.map.column = bits({3, 4, 5, 7, 8, 9, 10, 11, 12, 13});
    config.map.bank_group = bits({6, 16});
    config.map.bank = bits({14, 15});
    config.map.rank = bits({17});
    for (unsigned bit = 18; bit < 34; ++bit) config.map.row.push_back(std::uint64_t{1} << bit);
    const auto clocks = [](std::int64_t count) { return Picoseconds(833 * count); };
    DramTimings& t = config.timings;
    t.tCK = clocks(1), t.burst = clocks(4), t.CL = clocks(17), t.CWL = clocks(12);
    t.tRCD = clocks(17), t.tRP = clocks(17), t.tRAS = clocks(39), t.tRC = clocks(56);
    t.tRRD_S = clocks(4), t.tRRD_L = clocks(6), t.tFAW = clocks(26);
    t.tCCD_S = clocks(4), t.tCCD_L = clocks(6), t.tCCD_L_WR = clocks(6);
    t.tWTR_S = clocks(3), t.tWTR_L = clocks(9), t.tRTW = clocks(2), t.tRTRS = clocks(2);
    t.tRTP = clocks(9), t.tWR = clocks(18), t.tREFI = clocks(9364), t.tRFC = clocks(421);
    config.window = 32;
    config.outstanding = 10;
    return config;
}

// Copies 16 MiB to the place behind it, line by line.
std::vector<std::uint64_t> copy(std::size_t requests) {
    constexpr std::uint64_t array = 16u << 20;
    std::vector<std::uint64_t> list;
    for (std::uint64_t line = 0; list.size() < requests; line = (line + 64) % array) {
        list.push_back(line);
        list.push_back((array + line) | Dram::write_bit);
    }
    return list;
}

// Lines anywhere in 1 GiB, one in three written.
std::vector<std::uint64_t> scattered(std::size_t requests) {
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> list(requests);
    for (std::uint64_t& request : list) {
        const std::uint64_t drawn = random();
        request = (drawn >> 34 & ~std::uint64_t{63}) | (drawn % 3 == 0 ? Dram::write_bit : 0);
    }
    return list;
}

using Streams = std::vector<std::span<const std::uint64_t>>;

// The requests of `all`, each core a part of its own.
Streams among(const std::vector<std::uint64_t>& all, std::size_t cores) {
    Streams streams;
    const std::size_t each = all.size() / cores;
    for (std::size_t core = 0; core < cores; ++core) {
        streams.push_back(std::span(all).subspan(core * each, each));
    }
    return streams;
}

double slow_rate(const DramConfig& config, const Streams& streams, Streams::size_type requests) {
    Dram fast(config);
    reference::TickingDram slow(config, config.timings.tCK.raw());
    Streams begun;
    for (const auto& stream : streams) begun.push_back(stream.first(requests / streams.size()));
    fast.run(begun);
    const double start = seconds();
    slow.run(begun);
    const double rate = static_cast<double>(requests) / (seconds() - start);
    if (!(fast.counts() == slow.counts() && fast.totals() == slow.totals())) {
        std::fprintf(stderr, "the ticking DRAM counts differently\n");
        std::exit(1);
    }
    return rate;
}

void report(const char* name, const DramConfig& config, const Streams& streams) {
    std::size_t requests = 0;
    for (const auto& stream : streams) requests += stream.size();
    double best = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        Dram dram(config);
        const double start = seconds();
        dram.run(streams);
        best = std::max(best, static_cast<double>(requests) / (seconds() - start));
    }
    const double slow = slow_rate(config, streams, 20'000);
    std::printf(
        "{\"name\": \"DRAM: %s\", \"value\": %.3g, \"unit\": \"M requests/s\", \"required\": "
        "\">= 20\", \"note\": \"ticking reference %.2g, equal counts and times\"}\n",
        name, best / 1e6, slow / 1e6);
}

}  // namespace

int main() {
    const auto copied = copy(4u << 20), drawn = scattered(4u << 20);
    const DramConfig one = ddr4_2400();
    report("copy of two 16 MiB arrays, one core", one, among(copied, 1));
    report("random lines over 1 GiB, one core", one, among(drawn, 1));
    DramConfig six = one;  // channels, the addresses going round them by lines
    six.map.interleave = 6;
    report("random lines, 24 cores on six channels", six, among(drawn, 24));
}
