// Translations a second of the TLB of Skylake-SP beside the plainest TLB, on streams, on random
// pages and on runs of accesses to a page; the counts are equal.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "core/machine/tlb.hpp"
#include "core/random/philox.hpp"
#include "tests/cpp/reference_tlb.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t translations = 1u << 22;
constexpr std::uint64_t gibibyte = 1u << 30;
using Addresses = std::vector<std::uint64_t>;

// machines/tlb/skx.toml and machines/tlb/zen4.toml.
TlbForm skylake() {
    TlbForm form;
    form.arrays = {{1, {64, 4}, false, {true, false, false}, {}, false},
                   {1, {32, 4}, false, {false, true, false}, {}, false},
                   {1, {4, 4}, false, {false, false, true}, {}, false},
                   {2, {1536, 12}, true, {true, true, false}, {}, false},
                   {2, {16, 4}, false, {false, false, true}, {}, false}};
    form.structure_caches = {{{}, {32, 8}, {8, 4}, {4, 4}}};
    return form;
}
TlbForm zen4() {
    TlbForm form;
    form.arrays = {{1, {72, 72}, false, {true, true, true}, {}, false},
                   {2, {3072, 24}, false, {true, true, false}, {}, false}};
    form.structure_caches = {{{}, {64, 64}, {8, 4}, {4, 4}}};
    return form;
}

// Seconds of this thread's processor time: what else runs on the machine counts less.
double seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double rate(const std::function<void()>& work, unsigned rounds) {
    double best = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        const double start = seconds();
        work();
        best = std::max(best, static_cast<double>(translations) / (seconds() - start));
    }
    return best;
}

void compare(const std::string& name, const TlbForm& form, const Addresses& addresses,
             PageSize size, const char* required) {
    TlbCounters counters, plain;
    Tlb tlb(form);
    tlb.translate(addresses, size, counters);  // once for the counts, from nothing
    ReferenceTlb reference(form);
    const double slow = rate(
        [&] {
            for (const std::uint64_t address : addresses) reference.access(address, size, plain);
        },
        1);
    if (counters != plain) {
        std::fprintf(stderr, "%s: the reference counts differently\n", name.c_str());
        std::exit(1);
    }
    const double fast = rate([&] { tlb.translate(addresses, size, counters); }, 7);
    std::printf(
        "{\"name\": \"tlb: %s\", \"value\": %.3g, \"unit\": \"M translations/s\", \"required\": "
        "\"%s\", \"note\": \"plainest TLB %.3g, equal counts\"}\n",
        name.c_str(), fast / 1e6, required, slow / 1e6);
}

// Three arrays of `bytes` in turn, by doubles.
Addresses triad(std::uint64_t bytes) {
    Addresses addresses(translations);
    for (std::size_t i = 0; i < translations; ++i) addresses[i] = i % 3 * bytes + i / 3 * 8 % bytes;
    return addresses;
}

Addresses random_lines(std::uint64_t bytes) {
    Random random(1, 0, 0, Stream::random_frames);
    Addresses addresses(translations);
    for (std::uint64_t& address : addresses)
        address = std::uint64_t{random.below(static_cast<std::uint32_t>(bytes / 64))} * 64;
    return addresses;
}

}  // namespace

int main() {
    const char* const required = ">= 50";
    compare("triad of three arrays, 4 KiB pages, Skylake", skylake(), triad(gibibyte),
            PageSize::small, required);
    compare("random lines over 1 GiB, 4 KiB pages, Skylake", skylake(), random_lines(gibibyte),
            PageSize::small, required);
    compare("random lines over 1 GiB, 2 MiB pages, Skylake", skylake(), random_lines(gibibyte),
            PageSize::large, required);
    compare("random lines over 4 MiB, 4 KiB pages, Skylake", skylake(), random_lines(4u << 20),
            PageSize::small, required);
    compare("triad of three arrays, 4 KiB pages, Zen 4", zen4(), triad(gibibyte), PageSize::small,
            required);
    compare("random lines over 1 GiB, 4 KiB pages, Zen 4", zen4(), random_lines(gibibyte),
            PageSize::small, required);
}
