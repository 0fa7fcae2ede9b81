// Three levels of caches of one core, and the snoop filter of 24, beside the slow, obvious version
// (tests/cpp/reference_hierarchy.hpp), whose counts have to be the same. Where each access of one
// core misses L2, a bare loop reads and writes the same rows of the host, and does nothing else.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/huge_array.hpp"
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

// The yardstick of accesses of one core that all miss L2: the row of L2, then the rows of L3 of the
// line and of the one that L2 pushed out. Rows are asked for as far ahead as the hierarchy does, in
// three loops. What a row holds is a ring of the lines that came last, so that somebody leaves.
class BareRows {
  public:
    explicit BareRows(const HierarchyModel& m)
        : l2_(m.l2.geometry.sets, row_bytes(m.l2.geometry.ways, 1)),
          l3_(slices * std::size_t{m.l3->geometry.sets}, row_bytes(m.l3->geometry.ways, 0)),
          l2_sets_(m.l2.geometry.sets) {}

    void access(std::span<const LineAccess> some) {
        for (std::size_t now = 0; now < some.size() + 2 * part; now += part) {
            for_part(some, now, [this](const LineAccess& its) { l2_.prefetch(l2_row(its)); });
            if (now < part) continue;
            for_part(some, now - part, [this](const LineAccess& its) {
                l3_.prefetch(shared_row(its.line));
                l3_.prefetch(shared_row(l2_.oldest(l2_row(its))));
            });
            if (now < 2 * part) continue;
            for_part(some, now - 2 * part, [this](const LineAccess& its) {
                const std::uint32_t victim = l2_.replace(l2_row(its), its.line);
                found += l3_.oldest(shared_row(its.line));  // only read: L3 is filled by victims
                l3_.replace(shared_row(victim), victim);
            });
        }
    }

    std::uint64_t found = 0;  // keeps what is only read from being left out

  private:
    static constexpr std::size_t part = 32, slices = 24;

    // Rows of some bytes, in which every line of the host is read and written.
    class Rows {
      public:
        Rows(std::size_t rows, std::size_t bytes)
            : bytes_(bytes), words_((rows * bytes + 64) / sizeof(std::uint32_t)) {}
        void prefetch(std::size_t row) {
            for (std::size_t byte = 0; byte < bytes_; byte += 64)
                __builtin_prefetch(at(row) + byte / sizeof(std::uint32_t), 1);
        }
        [[nodiscard]] std::uint32_t oldest(std::size_t row) { return at(row)[1 + *at(row) % ways]; }
        std::uint32_t replace(std::size_t row, std::uint64_t line) {
            std::uint32_t* const its = at(row);
            for (std::size_t byte = 64; byte < bytes_; byte += 64)
                ++its[byte / sizeof(std::uint32_t) + 1];
            return std::exchange(its[1 + (*its)++ % ways], static_cast<std::uint32_t>(line));
        }

      private:
        static constexpr std::uint32_t ways = 8;  // of the ring; a power of two is quick
        [[nodiscard]] std::uint32_t* at(std::size_t row) {
            return words_.data() + row * bytes_ / sizeof(std::uint32_t);
        }
        std::size_t bytes_;
        HugeVector<std::uint32_t> words_;
    };

    // As in core/machine/cache_rows.hpp: a tag and an age for each way, and what lies beside them.
    static std::size_t row_bytes(std::size_t ways, std::size_t beside) {
        return (ways * (sizeof(std::uint32_t) + 1 + beside) + 31) / 32 * 32;
    }
    template <class Visit>
    static void for_part(std::span<const LineAccess> some, std::size_t first, Visit&& visit) {
        for (std::size_t i = first; i < std::min(first + part, some.size()); ++i) visit(some[i]);
    }
    [[nodiscard]] std::size_t l2_row(const LineAccess& its) const { return its.line % l2_sets_; }
    // Another hash than the model's, as cheap as can be.
    [[nodiscard]] static std::size_t shared_row(std::uint64_t line) {
        return (line * 0x9e3779b97f4a7c15 >> 40) * slices * 2048 >> 24;
    }

    Rows l2_, l3_;
    std::uint32_t l2_sets_;
};

// What every core does in turn; `next` gives the i-th access.
template <class Next>
void measure(const char* name, const HierarchyModel& model, std::uint64_t accesses,
             std::uint64_t checked, const char* required, Next next, bool all_miss = false) {
    std::vector<LineAccess> all(batch);
    MemoryTraffic traffic;
    const auto in_batches = [&](std::uint64_t first, std::uint64_t last, auto&& work) {
        double spent = 0;
        for (std::uint64_t begin = first; begin < last; begin += batch) {
            const std::size_t size = std::min<std::uint64_t>(batch, last - begin);
            for (std::size_t i = 0; i < size; ++i) all[i] = next(begin + i);
            const double start = seconds();
            work(std::span<const LineAccess>(all).first(size));
            spent += seconds() - start;
        }
        return spent;
    };
    const auto run = [&](CacheHierarchy& caches, std::uint64_t first, std::uint64_t last) {
        return in_batches(first, last, [&](std::span<const LineAccess> some) {
            traffic.clear();
            caches.access(some, traffic);
        });
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
    BareRows bare(model);
    double best = 0, best_bare = 0;
    for (int round = 0; round < 3; ++round) {
        best = std::max(best, static_cast<double>(accesses) / run(fast, 0, accesses));
        if (!all_miss) continue;
        const double spent =
            in_batches(0, accesses, [&](std::span<const LineAccess> some) { bare.access(some); });
        best_bare = std::max(best_bare, static_cast<double>(accesses) / spent);
    }
    char beside[64] = "";
    if (bare.found != 0)
        std::snprintf(beside, sizeof beside, "bare loop over the rows %.3g, ", best_bare / 1e6);
    const double all_accesses = static_cast<double>(fast.total(CacheCounter::accesses));
    const auto share = [&](CacheCounter counter) {
        return static_cast<int>(100 * static_cast<double>(fast.total(counter)) / all_accesses +
                                0.5);
    };
    std::printf(
        "{\"name\": \"caches: %s\", \"value\": %.3g, \"unit\": \"M accesses/s\", \"required\": "
        "\"%s\", \"note\": \"%sslow version %.2g, equal counts; L2 fills %d%%, DRAM reads %d%%, SF "
        "evictions %d%%\"}\n",
        name, best / 1e6, required, beside, slow_rate / 1e6, share(CacheCounter::l2_lines_in),
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
    measure(
        "three levels, triad, every line once", model, accesses, checked, ">= 60",
        [&](std::uint64_t i) { return triad(i, 0); }, true);
    measure(
        "three levels, random lines over 1 GiB", model, accesses, checked, ">= 25",
        [](std::uint64_t i) {
            return LineAccess{SplitMix64::mixed(i) & (gigabyte_lines - 1), 0, AccessKind::read};
        },
        true);
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
