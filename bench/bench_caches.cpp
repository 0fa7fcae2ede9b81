// Three levels of caches of one core, and the snoop filter of 24, beside the slow, obvious version
// (tests/cpp/reference_hierarchy.hpp), whose counts have to be the same.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/random/split_mix64.hpp"
#include "tests/cpp/reference_hierarchy.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t batch = 1u << 16;
constexpr std::uint64_t gigabyte_lines = 1u << 24;

// Seconds of this thread's processor time: what else runs on the machine counts less.
double seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// machines/hashes/skx-24.toml
AddressHash skx_24() {
    HashForm form;
    form.levels.push_back({{0x14c896c740, 0x0a57f311c0, 0x2c56e59300},
                           HashForm::High{{0x138bca3080, 0x38bca30800, 0x1c5e518400, 0x0e2f28c200,
                                           0x2717946100, 0x09c5e51840},
                                          42,
                                          1}});
    form.group_values = 24;
    return AddressHash(form);
}

// Xeon Platinum 8160, its L1 simulated or run before.
HierarchyModel skylake(std::uint32_t cores, bool with_l1) {
    HierarchyModel m;
    m.cores = cores;
    if (with_l1) m.l1 = {{64, 8}, 1};
    m.l2.geometry = {1024, 16};
    m.l3 = {{2048, 11}, Inclusion::victim};
    if (cores > 1) m.snoop_filter = {2048, 12};
    m.slices = skx_24();
    return m;
}

// What every core does in turn; `next` gives the i-th access.
template <class Next>
void measure(const char* name, const HierarchyModel& model, std::uint64_t accesses,
             std::uint64_t checked, const char* required, Next next) {
    std::vector<LineAccess> all(batch);
    MemoryTraffic traffic;
    const auto run = [&](CacheHierarchy& caches, std::uint64_t first, std::uint64_t last) {
        double spent = 0;
        for (std::uint64_t begin = first; begin < last; begin += batch) {
            const std::size_t size = std::min<std::uint64_t>(batch, last - begin);
            for (std::size_t i = 0; i < size; ++i) all[i] = next(begin + i);
            traffic.clear();
            const double start = seconds();
            caches.access(std::span(all).first(size), traffic);
            spent += seconds() - start;
        }
        return spent;
    };
    CacheHierarchy fast(model);
    run(fast, 0, checked);
    reference::Hierarchy slow(model);
    const double start = seconds();
    for (std::uint64_t i = 0; i < checked; ++i) {
        const LineAccess its = next(i);
        slow.access(its.line, its.core, its.kind);
        slow.traffic.clear();
    }
    const double slow_rate = static_cast<double>(checked) / (seconds() - start);
    if (!std::equal(slow.counts.begin(), slow.counts.end(), fast.counts().begin())) {
        std::fprintf(stderr, "%s: the slow version counts differently\n", name);
        std::exit(1);
    }
    double best = 0;
    for (int round = 0; round < 3; ++round) {
        const double spent = run(fast, 0, accesses);
        best = std::max(best, static_cast<double>(accesses) / spent);
    }
    const double all_accesses = static_cast<double>(fast.total(CacheCounter::accesses));
    const auto share = [&](CacheCounter counter) {
        return static_cast<int>(100 * static_cast<double>(fast.total(counter)) / all_accesses +
                                0.5);
    };
    std::printf(
        "{\"name\": \"caches: %s\", \"value\": %.3g, \"unit\": \"M accesses/s\", \"required\": "
        "\"%s\", \"note\": \"slow version %.2g, equal counts; L2 fills %d%%, DRAM reads %d%%, SF "
        "evictions %d%%\"}\n",
        name, best / 1e6, required, slow_rate / 1e6, share(CacheCounter::l2_lines_in),
        share(CacheCounter::dram_reads), share(CacheCounter::sf_evictions));
}

void three_levels() {
    const HierarchyModel model = skylake(1, true);
    constexpr std::uint64_t accesses = 1u << 23, checked = 1u << 17;
    const auto triad = [](std::uint64_t element, unsigned bits) {  // a[i] = b[i] + s * c[i]
        constexpr std::uint64_t array = (3u << 20) + 37;           // lines
        const std::uint64_t line = element / 3 >> bits;
        return LineAccess{element % 3 * array + line % array, 0,
                          element % 3 == 2 ? AccessKind::write : AccessKind::read};
    };
    measure("three levels, triad of doubles", model, accesses, checked, ">= 60",
            [&](std::uint64_t i) { return triad(i, 3); });
    measure("three levels, triad, every line once", model, accesses, checked, ">= 60",
            [&](std::uint64_t i) { return triad(i, 0); });
    measure("three levels, random lines over 1 GiB", model, accesses, checked, ">= 25",
            [](std::uint64_t i) {
                return LineAccess{SplitMix64::mixed(i) & (gigabyte_lines - 1), 0, AccessKind::read};
            });
}

void snoop_filter() {
    const HierarchyModel model = skylake(24, false);
    constexpr std::uint64_t lines = 15625;  // 125,000 doubles
    constexpr std::uint64_t accesses = 24 * lines * 32, checked = 24 * lines / 2;
    measure("24 cores and snoop filter, each cycles over 125,000 doubles", model, accesses, checked,
            ">= 20", [](std::uint64_t i) {
                return LineAccess{i % 24 * lines + i / 24 % lines + gigabyte_lines / 4,
                                  static_cast<std::uint32_t>(i % 24), AccessKind::read};
            });
    measure("24 cores and snoop filter, random lines over 1 GiB", model, accesses, checked, ">= 20",
            [](std::uint64_t i) {
                return LineAccess{SplitMix64::mixed(i) & (gigabyte_lines - 1),
                                  static_cast<std::uint32_t>(i % 24),
                                  i % 5 == 0 ? AccessKind::write : AccessKind::read};
            });
}

}  // namespace

int main() {
    three_levels();
    snoop_filter();
}
