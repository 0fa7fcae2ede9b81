// The event-driven DRAM: equal to one that ticks, in every count and to the picosecond, and the
// constraints between commands, one by one.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/machine/dram.hpp"
#include "tests/cpp/drawn_dram.hpp"
#include "tests/cpp/reference_dram.hpp"

using namespace pagelens;

namespace {

using Requests = std::vector<std::uint64_t>;

std::vector<std::span<const std::uint64_t>> spans(const std::vector<Requests>& cores) {
    return {cores.begin(), cores.end()};
}

constexpr std::uint64_t W = Dram::write_bit;

// Two ranks of two groups of two banks; rows of four lines. From low to high: column (2 bits),
// bank, group, rank, row.
constexpr std::uint64_t bank_step = 256, group_step = 512, rank_step = 1024, row_step = 2048;

DramConfig small() {
    DramConfig config;
    config.map.offset_bits = 6;
    config.map.column = {64, 128};
    config.map.bank = {bank_step};
    config.map.bank_group = {group_step};
    config.map.rank = {rank_step};
    config.map.row = {2048, 4096, 8192, 16384};
    DramTimings& t = config.timings;
    const auto ps = [](std::int64_t clocks) { return Picoseconds(10 * clocks); };
    t.tCK = ps(1), t.burst = ps(4), t.CL = ps(17), t.CWL = ps(12), t.tRCD = ps(16), t.tRP = ps(15);
    t.tRAS = ps(39), t.tRC = ps(56), t.tRRD_S = ps(4), t.tRRD_L = ps(6), t.tFAW = ps(26);
    t.tCCD_S = ps(4), t.tCCD_L = ps(6), t.tCCD_L_WR = ps(7), t.tWTR_S = ps(3), t.tWTR_L = ps(9);
    t.tRTW = ps(2), t.tRTRS = ps(1), t.tRTP = ps(9), t.tWR = ps(18);
    t.tREFI = ps(9364), t.tRFC = ps(421);
    config.window = 64;
    config.outstanding = 64;
    return config;
}

struct Result {
    std::int64_t time;  // in clocks
    DramBankCounts sum;
};

Result run(const DramConfig& config, const Requests& requests) {
    Dram dram(config);
    const std::span<const std::uint64_t> one[] = {requests};
    dram.run(one);
    Result result{dram.totals().time.raw() / 10, {}};
    CHECK(dram.totals().time.raw() % 10 == 0);
    for (const DramBankCounts& bank : dram.counts()) {
        result.sum.reads += bank.reads;
        result.sum.writes += bank.writes;
        result.sum.hits += bank.hits;
        result.sum.misses += bank.misses;
        result.sum.conflicts += bank.conflicts;
        result.sum.refreshes += bank.refreshes;
    }
    return result;
}

std::int64_t clocks(const Requests& requests) { return run(small(), requests).time; }

// Time of the first line alone: activate, read, data; or activate, write, data.
constexpr std::int64_t read_time = 16 + 17 + 4, write_time = 16 + 12 + 4;

}  // namespace

TEST_CASE("counts and times are those of a DRAM that ticks, whatever is drawn") {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        DrawnDram draw(seed);
        const std::int64_t clock = draw.draw(1, 3);
        const DramConfig config = draw.config(clock);
        CAPTURE(seed);
        Dram fast(config);
        reference::TickingDram slow(config, clock);
        for (int round = 0; round < 2; ++round) {  // rows stay open, time goes on
            std::vector<Requests> cores;
            for (auto core = draw.draw(1, 3); core > 0; --core) {
                cores.push_back(
                    draw.requests(fast.map().bytes(), static_cast<std::size_t>(draw.draw(0, 250))));
            }
            fast.run(spans(cores));
            slow.run(spans(cores));
            REQUIRE(fast.totals() == slow.totals());
            REQUIRE(fast.counts() == slow.counts());
        }
    }
}

TEST_CASE("in order, hits, misses and conflicts are those of the last row of each bank") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        DrawnDram draw(seed);
        DramConfig config = draw.config(1);
        config.policy = RowPolicy::open;
        config.window = 1;
        config.timings.tREFI = Picoseconds(1'000'000'000);  // later than the end
        Dram dram(config);
        const std::vector<Requests> cores = {draw.requests(dram.map().bytes(), 500)};
        dram.run(spans(cores));
        std::vector<DramBankCounts> expected(dram.map().banks());
        std::vector<std::int64_t> open(dram.map().banks(), -1);
        for (const std::uint64_t request : cores[0]) {
            const DramPlace place = dram.map()(request & ~W);
            DramBankCounts& bank = expected[place.bank];
            ++((request & W) != 0 ? bank.writes : bank.reads);
            ++(open[place.bank] == place.row ? bank.hits
               : open[place.bank] < 0        ? bank.misses
                                             : bank.conflicts);
            open[place.bank] = place.row;
        }
        CAPTURE(seed);
        CHECK(dram.counts() == expected);
    }
}

TEST_CASE("every timing is kept to the clock") {
    CHECK(clocks({0}) == read_time);
    CHECK(clocks({W}) == write_time);
    // Lines of one row: tCCD_L apart; writes tCCD_L_WR.
    CHECK(clocks({0, 64}) == read_time + 6);
    CHECK(clocks({W, W | 64}) == write_time + 7);
    // Banks of one group: activates tRRD_L apart; of two groups tRRD_S, and reads tCCD_S.
    CHECK(clocks({0, bank_step}) == read_time + 6);
    CHECK(clocks({0, group_step}) == read_time + 4);
    // Two ranks: activates at once, data tRTRS apart.
    CHECK(clocks({0, rank_step}) == read_time + 4 + 1);
    CHECK(clocks({W, W | rank_step}) == write_time + 4 + 1);
    // Another row of the bank: tRC, which is more than tRAS and tRP; the read allows it earlier.
    CHECK(clocks({0, row_step}) == 56 + read_time);
    // After three lines more the last read is at 16 + 18, and tRTP later than tRAS.
    CHECK(clocks({0, 64, 128, 192, row_step}) == 16 + 18 + 9 + 15 + read_time);
    // After a write: its data, tWR, precharge.
    CHECK(clocks({W, row_step}) == 16 + 12 + 4 + 18 + 15 + read_time);
    // Turning the bus round, in a group, in a rank, between ranks.
    CHECK(clocks({0, W | 64}) == 16 + (17 + 4 + 2 - 12) + 12 + 4);
    CHECK(clocks({0, W | group_step}) == 16 + (17 + 4 + 2 - 12) + 12 + 4);
    CHECK(clocks({0, W | rank_step}) == 16 + (17 + 4 + 1 - 12) + 12 + 4);
    CHECK(clocks({W, 64}) == 16 + (12 + 4 + 9) + 17 + 4);
    CHECK(clocks({W, group_step}) == 16 + (12 + 4 + 3) + 17 + 4);
    // Between ranks it would be 12 + 4 + 1 - 17 = 0 clocks: a clock it is, for the command.
    CHECK(clocks({W, rank_step}) == 16 + 1 + 17 + 4);
}

TEST_CASE("a row stays open for tRAS, and four activates take their time") {
    DramConfig config = small();
    config.timings.tRAS = Picoseconds(450);  // more than tRC less tRP
    CHECK(run(config, {0, row_step}).time == 45 + 15 + read_time);
    config = small();
    config.map.bank = {bank_step, 32768};  // four banks a group
    config.timings.tFAW = Picoseconds(10 * 200);
    const Requests five = {0, group_step, bank_step, 32768, 32768 + bank_step};
    CHECK(run(config, {five.begin(), five.begin() + 4}).time < 200);
    CHECK(run(config, five).time == 200 + read_time);
}

TEST_CASE("the ready ones go first, the oldest of them first") {
    // The second request's row is not open; the third's is, and it passes.
    const Requests requests = {0, row_step, 64};
    const Result all = run(small(), requests);
    CHECK(all.sum.hits == 1);
    CHECK(all.sum.conflicts == 1);
    DramConfig in_order = small();
    in_order.window = 1;
    const Result ordered = run(in_order, requests);
    CHECK(ordered.sum.hits == 0);
    CHECK(ordered.sum.conflicts == 2);
    CHECK(ordered.time > all.time);
    // A window of two reaches it only when the first is served: the precharge waits for tRAS.
    in_order.window = 2;
    CHECK(run(in_order, requests).sum.hits == 1);
}

TEST_CASE("nothing is passed by more than the window") {
    // One request for row 1 among many for row 0, which come in rows' turns of four columns.
    Requests requests = {0, row_step};
    for (int i = 0; i < 300; ++i) requests.push_back(64 * static_cast<std::uint64_t>(i % 4));
    DramConfig config = small();
    config.window = 16;
    config.outstanding = 1000;
    Dram dram(config);
    const std::span<const std::uint64_t> one[] = {requests};
    dram.run(one);
    // Row 1 once, and row 0 again.
    CHECK(dram.counts()[0].conflicts == 2);
    CHECK(dram.counts()[0].hits == 299);
    config.window = 1;
    CHECK(run(config, requests).sum.conflicts == 2);
}

TEST_CASE("closed pages close with the last request for them") {
    DramConfig config = small();
    config.policy = RowPolicy::closed;
    const Result both = run(config, {0, 64});
    CHECK(both.sum.misses == 1);
    CHECK(both.sum.hits == 1);
    config.outstanding = 1;  // the second comes when the first is done
    const Result single = run(config, {0, 64, row_step});
    CHECK(single.sum.misses == 3);
    CHECK(single.sum.conflicts == 0);
    // The row closed by itself: the next one waits for no precharge, but for the row cycle.
    CHECK(single.time == 2 * 56 + read_time);
}

TEST_CASE("a refresh closes the rows of its rank, and the ranks take turns") {
    DramConfig config = small();
    config.outstanding = 1;
    Requests requests(400, 0);  // one after the other, 21 clocks each
    const Result result = run(config, requests);
    // The rank is due at 4682. Its last read is at 16 + 222 x 21 = 4678; it may precharge at 4687.
    const std::int64_t rested = 4687 + 15 + 421;
    CHECK(result.time == rested + 16 + (400 - 223) * 21);
    CHECK(result.sum.misses == 2);
    CHECK(result.sum.hits == 398);
    Dram dram(config);
    const std::span<const std::uint64_t> one[] = {requests};
    dram.run(one);
    CHECK(dram.counts()[0].refreshes == 1);
    CHECK(dram.counts()[3].refreshes == 1);
    CHECK(dram.counts()[4].refreshes == 0);  // the other rank, due at 9364
    dram.run(one);
    CHECK(dram.counts()[0].refreshes == 2);
    CHECK(dram.counts()[4].refreshes == 1);
}

TEST_CASE("the ideal twin finds every row open, and is no slower") {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        DrawnDram draw(seed);
        DramConfig config = draw.config(1);
        config.outstanding = 1;  // so that the order is the same
        config.timings.tREFI = Picoseconds(1'000'000'000);
        config.policy = RowPolicy::ideal;
        Dram ideal(config);
        config.policy = RowPolicy::open;
        Dram real(config);
        const std::vector<Requests> cores = {draw.requests(ideal.map().bytes(), 300)};
        ideal.run(spans(cores));
        real.run(spans(cores));
        for (const DramBankCounts& bank : ideal.counts()) {
            CHECK(bank.hits == bank.reads + bank.writes);
        }
        CHECK(ideal.totals().time < real.totals().time);
    }
}

TEST_CASE("a core has so many lines under way, and no more") {
    DramConfig config = small();
    config.path = Picoseconds(500);
    config.outstanding = 1;
    CHECK(run(config, {0, 64, 128}).time == 16 + 3 * (21 + 50));
    config.outstanding = 2;
    CHECK(run(config, {0, 64, 128}).time == 16 + 2 * (21 + 50));
    config.outstanding = 3;
    CHECK(run(config, {0, 64, 128}).time == 16 + 12 + 21 + 50);
    // Two cores with one each are as one with two.
    config.outstanding = 1;
    Dram two(config);
    const Requests first = {0, 128}, second = {64};
    two.run(spans({first, second}));
    CHECK(two.totals().time.raw() == 10 * (16 + 2 * (21 + 50)));
    CHECK(two.totals().read_latency.raw() == 10 * ((16 + 71) + (16 + 6 + 71) + 71));
}

TEST_CASE("a bank's busy time follows from its counts") {
    const Dram dram(small());
    CHECK(dram.busy({3, 2, 2, 1, 2, 1}).raw() == 10 * (2 * (15 + 16) + 16 + 5 * 4 + 421));
}

TEST_CASE("what no DRAM has is refused by name") {
    const auto refused = [](const DramConfig& config) {
        try {
            Dram dram(config);
        } catch (const std::invalid_argument& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(refused(small()).empty());
    DramConfig config = small();
    config.timings.tRP = Picoseconds(0);
    CHECK(refused(config) == "tRP: must be above 0 and at most 1 ms");
    config = small();
    config.timings.tRC = Picoseconds(380);
    CHECK(refused(config) == "tRC: shorter than tRAS");
    config = small();
    config.timings.tCCD_L = Picoseconds(30);
    CHECK(refused(config) == "tCCD_L: shorter than tCCD_S");
    config = small();
    config.timings.tREFI = config.timings.tRFC;
    CHECK(refused(config).starts_with("tREFI: shorter than the refresh"));
    config = small();
    config.window = 65;
    CHECK(refused(config) == "window: 65 is not from 1 to 64");
    config = small();
    config.outstanding = 0;
    CHECK(refused(config) == "outstanding: 0 is not from 1 to 4096");
    config = small();
    config.path = Picoseconds(-1);
    CHECK(refused(config) == "path: must be from 0 to 1 ms");
    Dram dram(small());
    const Requests high = {64, 1u << 15};
    CHECK_THROWS_AS(dram.run(spans({high})), std::out_of_range);
    CHECK(dram.totals() == DramTotals{});
}
