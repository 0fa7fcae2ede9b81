// The parts of the library of `pagelens run` that need no process around them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

extern "C" {
#include "preload/moves.h"
#include "preload/settings.h"
#include "preload/slots.h"
#include "preload/stagger.h"
}

namespace {
// The least populated group, one by one; of equal ones what is in place, then the lowest address.
std::vector<std::uintptr_t> chosen_slowly(std::vector<unit> units, std::size_t wanted,
                                          std::vector<std::uint32_t> population,
                                          std::uint32_t pages) {
    std::vector<std::uintptr_t> chosen;
    while (chosen.size() < wanted) {
        const auto best =
            std::min_element(units.begin(), units.end(), [&](const unit& a, const unit& b) {
                const auto key = [&](const unit& u) {
                    return std::tuple(population[u.group], u.spare, u.at);
                };
                return key(a) < key(b);
            });
        population[best->group] += pages;
        chosen.push_back(best->at);
        units.erase(best);
    }
    return chosen;
}

const char* parsed(const std::string& text, struct settings& into) {
    return settings_parse(text.c_str(), &into);
}
}  // namespace

TEST_CASE("run: the first units fill the least populated groups as a choice one by one does") {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const std::size_t groups = 1 + random() % 6, count = 1 + random() % 24;
        std::vector<std::uint32_t> population(groups);
        for (auto& pages : population) pages = static_cast<std::uint32_t>(512 * (random() % 3));
        std::vector<unit> units(count);
        for (std::size_t i = 0; i < count; ++i)
            units[i] = {0x200000 * (i + 1), static_cast<std::uint32_t>(random() % groups), 0,
                        static_cast<std::uint32_t>(random() % 2)};
        const std::size_t wanted = random() % (count + 1);
        const auto slowly = chosen_slowly(units, wanted, population, 512);
        const auto before = population;
        units_order(units.data(), count, population.data(), 512);
        CHECK(population == before);
        // What is in place keeps its rank within the group; which of equal ones comes first is
        // open.
        std::vector<std::uint32_t> of_groups(groups), of_slow(groups);
        std::size_t spare = 0, spare_slowly = 0;
        for (std::size_t i = 0; i < wanted; ++i) {
            ++of_groups[units[i].group];
            spare += units[i].spare;
            const auto same = [&](const unit& u) { return u.at == slowly[i]; };
            const auto found = std::find_if(units.begin(), units.end(), same);
            ++of_slow[found->group];
            spare_slowly += found->spare;
        }
        auto most = [&](const std::vector<std::uint32_t>& taken) {
            std::vector<std::uint32_t> full(groups);
            for (std::size_t g = 0; g < groups; ++g) full[g] = before[g] + 512 * taken[g];
            std::sort(full.begin(), full.end());
            return full;
        };
        CHECK(most(of_groups) == most(of_slow));
        CHECK(spare <= spare_slowly);
    }
}

TEST_CASE("run: the tally of shared slots is what counting again says") {
    std::mt19937 random(11);
    std::vector<std::uint32_t> of_slot(16);
    tally tally = {of_slot.data(), 0, 0};
    std::vector<std::size_t> pages;
    for (int step = 0; step < 2000; ++step) {
        if (pages.empty() || random() % 2) {
            pages.push_back(random() % of_slot.size());
            tally_add(&tally, pages.back());
        } else {
            const std::size_t at = random() % pages.size();
            tally_remove(&tally, pages[at]);
            pages.erase(pages.begin() + static_cast<std::ptrdiff_t>(at));
        }
        const auto shared = std::count_if(pages.begin(), pages.end(), [&](std::size_t slot) {
            return std::count(pages.begin(), pages.end(), slot) > 1;
        });
        REQUIRE(tally.pages == pages.size());
        REQUIRE(tally.sharing == static_cast<std::size_t>(shared));
    }
}

TEST_CASE("run: offsets are lines of the period and lie apart, at every number of blocks") {
    for (const std::size_t period : {256, 4096, 131072, 1 << 21}) {
        CHECK(stagger_offset(0, period) == 0);
        for (const std::size_t count : {2, 3, 5, 8, 13, 32}) {
            std::vector<std::size_t> offsets;
            for (std::size_t i = 0; i < count; ++i) {
                offsets.push_back(stagger_offset(i, period));
                CHECK(offsets.back() % 64 == 0);
                CHECK(offsets.back() < period);
            }
            if (period / 64 < 8 * count) continue;  // too few lines to be apart
            std::sort(offsets.begin(), offsets.end());
            offsets.push_back(period);
            for (std::size_t i = 0; i < count; ++i)
                CHECK(offsets[i + 1] - offsets[i] + 64 > period / (3 * count));
        }
    }
    CHECK(stagger_offset(5, 0) == 0);
}

TEST_CASE("run: a block moves by at most an eighth of its size") {
    for (const std::size_t size : {std::size_t{1}, std::size_t{511}, std::size_t{4096},
                                   std::size_t{1} << 20, std::size_t{3} << 30}) {
        const std::size_t period = stagger_period(131072, size);
        CHECK(period <= 131072);
        CHECK(period <= size / 8);
        CHECK((period & (period - 1)) == 0);
        if (size / 8 >= 131072) CHECK(period == 131072);
    }
}

TEST_CASE("run: settings are read, and what is none is refused") {
    struct settings read = {};
    CHECK(parsed("", read) == nullptr);
    CHECK(read.pages == PAGES_4K);
    CHECK(!read.report);
    CHECK(
        parsed("main=12,pages=1g,large=65536,period=128,cache=2097152,guest=1,json=1,report=/a,b=c",
               read) == nullptr);
    CHECK(read.main == 12);
    CHECK(read.pages == PAGES_1G);
    CHECK(read.large == 65536);
    CHECK(read.period == 128);
    CHECK(read.cache == 2097152);
    CHECK(read.guest);
    CHECK(read.json);
    CHECK(read.report);
    CHECK(std::string(read.path) == "/a,b=c");
    for (const char* wrong : {"pages",
                              "pages=",
                              "pages=4",
                              "pages=4kk",
                              "large=",
                              "large=-1",
                              "large=4095",
                              "large=0x10000",
                              "period=64",
                              "period=192",
                              "period=2147483648",
                              "cache=4096",
                              "json=2",
                              "guest=yes",
                              "=",
                              ",",
                              "pages=2m,,",
                              " pages=2m",
                              "main=0",
                              "main=4294967296",
                              "large=18446744073709551616"})
        CHECK_MESSAGE(parsed(wrong, read) != nullptr, wrong);
}

TEST_CASE("moves take a second, and then a tenth of the run") {
    const std::uint64_t second = 1'000'000'000;
    CHECK(moves_allowed(0, 0));
    CHECK(moves_allowed(second, second));
    CHECK_FALSE(moves_allowed(second + 1, 10 * second));
    CHECK(moves_allowed(second + 1, 10 * second + 10));
    CHECK_FALSE(moves_allowed(6 * second, 59 * second));
    CHECK(moves_allowed(6 * second, 60 * second));
}
