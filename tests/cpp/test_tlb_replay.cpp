// A trace's page uses through a TLB: what the filter left out changes nothing below the first
// level, and a TLB that it is too strong for is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "core/accesses/filter.hpp"
#include "core/accesses/strip.hpp"
#include "core/accesses/trace_writer.hpp"
#include "core/replay/tlb_replay.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

constexpr std::array<bool, 3> small{true, false, false}, large{false, true, false},
    all{true, true, true};

TlbForm two_levels(TlbShape first, TlbShape second, std::array<bool, 3> sizes) {
    TlbForm form;
    form.arrays = {{1, first, false, sizes, {}, false}, {2, second, false, sizes, {}, false}};
    form.structure_caches = {{{}, {8, 4}, {4, 4}, {2, 2}}};
    return form;
}

struct Access {
    std::uint64_t address;
    unsigned phase = 0;
    std::uint64_t unmap = 0;  // that many pages from there on, instead
};

// Several arrays walked in turn, near and far, with random pages between, some of which go again:
// as many at a time as a page of `size` has.
std::vector<Access> program(std::uint32_t seed, PageSize size) {
    const std::uint64_t unit = (std::uint64_t{1} << page_shift(size)) / page_bytes;
    std::mt19937 random(seed);
    const auto draw = [&](std::uint32_t below) {
        return static_cast<std::uint32_t>(random() % below);
    };
    const std::uint64_t arrays = 1 + draw(70),
                        distance = std::uint64_t{1 + draw(40)} << (12 + draw(10));
    const std::uint64_t stride = 64u << draw(7), pages = 8u << draw(8);
    std::vector<Access> accesses;
    unsigned phase = 0;
    for (std::uint64_t at = 0; accesses.size() < 8000; at += stride) {
        for (std::uint64_t array = 0; array < arrays; ++array)
            accesses.push_back({0x7f0000000000 + array * distance + at, phase});
        for (std::uint32_t i = draw(4); i > 0; --i)
            accesses.push_back(
                {0x400000 + draw(static_cast<std::uint32_t>(pages)) * page_bytes, phase});
        if (draw(40) == 0)
            accesses.push_back({(0x400000 / page_bytes + draw(30)) / unit * unit * page_bytes,
                                phase, unit * (1 + draw(20))});
        if (draw(50) == 0) phase = 1 - phase;
    }
    return accesses;
}

// The file that the tracer writes of it.
void write_trace(const std::string& path, const std::vector<Access>& accesses,
                 unsigned page_sets_used) {
    TraceHeader header;
    header.exact_for.assign(filter_exact_for.begin(), filter_exact_for.end());
    header.page_filter = filter_page_shape(page_sets_used);
    TraceWriter writer(path, header);
    writer.define(PhaseDefinition{5, "five"});
    Strip strip(page_sets_used);
    Filter<ThreadEncoder> filter(writer.thread(0));
    unsigned phase = 0;
    for (const Access& access : accesses) {
        std::array<Record, Strip::records_per_pass + 2 * event_words> records;
        Record* at = records.data();
        const auto event = [&at](EventKind kind, std::uint64_t address, std::uint64_t count,
                                 std::uint64_t extra) {
            for (const Record word :
                 {make_record(RecordKind::event, static_cast<std::uint64_t>(kind)), address, count,
                  extra})
                *at++ = word;
        };
        if (access.phase != phase) event(EventKind::phase, 0, 0, access.phase == 1 ? 5 : 0);
        phase = access.phase;
        if (access.unmap > 0) {
            const std::uint64_t page = access.address / page_bytes;
            at = strip.forget(page, access.unmap, at);
            event(EventKind::unmap, page, access.unmap, 0);
        } else {
            strip.advance(1);
            if (!strip.hides(access.address, 0, line_bytes - 1, 0))
                at = strip.pass(access.address, false, 0, at);
        }
        filter.take({records.data(), at});
    }
    writer.finish({});
}

// Without a filter, by phase.
std::array<TlbCounters, 2> replay_all(const std::vector<Access>& accesses, const Tlb& form,
                                      PageSize size) {
    Tlb tlb = form;
    std::array<TlbCounters, 2> counters{};
    for (const Access& access : accesses) {
        if (access.unmap > 0)
            tlb.invalidate(VirtualPage(access.address / page_bytes), access.unmap);
        else
            tlb.access(access.address, size, 1, counters[access.phase], [](unsigned, unsigned) {});
    }
    return counters;
}

}  // namespace

TEST_CASE("tlb replay: misses, walks and their steps of the whole stream, from the filtered one") {
    const struct {
        Tlb tlb;
        PageSize size;
        unsigned page_sets;
    } cases[] = {
        {Tlb(two_levels({64, 4}, {512, 4}, small)), PageSize::small, 16},
        {Tlb(two_levels({96, 6}, {128, 8}, small)), PageSize::small, 16},
        {Tlb(two_levels({64, 4}, {512, 4}, small)), PageSize::small, 1},
        {Tlb(two_levels({48, 48}, {512, 4}, all)), PageSize::small, 1},   // fully associative
        {Tlb(two_levels({64, 8}, {256, 8}, small)), PageSize::small, 1},  // eight sets
        {Tlb(two_levels({32, 4}, {128, 2}, large)), PageSize::large, 1},
        {Tlb(two_levels({8, 4}, {64, 4}, large)), PageSize::large, 1},
        {Tlb(two_levels({4, 4}, {16, 4}, all)), PageSize::huge, 1},
    };
    std::uint64_t hidden = 0, walks = 0;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        for (const auto& of : cases) {
            const Tlb& tlb = of.tlb;
            const PageSize size = of.size;
            CAPTURE(seed);
            CAPTURE(tlb.first_level(size).sets);
            const std::vector<Access> accesses = program(seed, size);
            const TemporaryFile file;
            write_trace(file.path, accesses, of.page_sets);
            const auto replayed = replay_pages(TraceReader(file.path), tlb, size);
            const auto whole = replay_all(accesses, tlb, size);
            REQUIRE(replayed.size() == 2);
            for (unsigned phase = 0; phase < 2; ++phase) {
                CHECK(replayed[phase].stlb_hits == whole[phase].stlb_hits);
                CHECK(replayed[phase].walks == whole[phase].walks);
                hidden += whole[phase].lookups - replayed[phase].lookups;
                for (const std::uint64_t count : whole[phase].walks_completed()) walks += count;
            }
        }
    }
    CHECK(hidden > 10000);
    CHECK(walks > 10000);
}

TEST_CASE("tlb replay: a TLB that the page filter is too strong for is refused") {
    const TlbShape shapes[] = {{64, 4}, {96, 6}, {48, 48}, {64, 8}, {32, 2}};
    const struct {
        CacheShape filter;
        std::array<bool, 5> exact_small, exact_large;
    } filters[] = {{{16, 4}, {true, true, false, false, false}, {}},
                   {{1, 4}, {true, true, true, true, false}, {true, true, true, true, false}},
                   {{0, 0}, {true, true, true, true, true}, {true, true, true, true, true}}};
    for (const auto& of : filters) {
        TraceHeader header;
        header.page_filter = of.filter;
        for (unsigned i = 0; i < 5; ++i) {
            CAPTURE(of.filter.sets);
            CAPTURE(i);
            const Tlb tlb(two_levels(shapes[i], {512, 4}, all));
            CHECK(is_exact_for(header, tlb, PageSize::small) == of.exact_small[i]);
            CHECK(is_exact_for(header, tlb, PageSize::large) == of.exact_large[i]);
            // pieces of 4 KiB of large pages are looked up as 4 KiB pages are
            TlbForm form = two_levels(shapes[i], {512, 4}, small);
            form.arrays[0].pieces = large;
            CHECK(is_exact_for(header, Tlb(form), PageSize::large) == of.exact_small[i]);
        }
    }
    const TemporaryFile file;
    write_trace(file.path, program(1, PageSize::small), page_sets);
    const TraceReader trace(file.path);
    const Tlb tlb(two_levels({48, 48}, {512, 4}, all));
    CHECK_THROWS_AS(static_cast<void>(replay_pages(trace, tlb, PageSize::small)),
                    std::invalid_argument);
}

TEST_CASE("tlb replay: each thread has a TLB of its own, and all lose what one unmaps") {
    const TemporaryFile file;
    {
        TraceWriter writer(file.path, TraceHeader{});
        ThreadEncoder& first = writer.thread(0);
        ThreadEncoder& second = writer.thread(1);
        const auto line = [](std::uint64_t page) { return page * lines_per_page; };
        first.put({EventKind::read, line(1), 0, 0});
        first.put({EventKind::read, line(2), 0, 0});
        first.put({EventKind::sync, 0, 0, 1});
        second.put({EventKind::read, line(1), 0, 0});
        second.put({EventKind::sync, 0, 0, 2});
        second.put({EventKind::page_touch, line(1), 0, 0});  // a hit
        second.put({EventKind::unmap, 1, 1, 0});
        second.put({EventKind::sync, 0, 0, 3});
        first.put({EventKind::sync, 0, 0, 4});
        first.put({EventKind::first_store, line(1), 0, 0});
        first.put({EventKind::stream_store, line(2), 0, 0});  // a hit
        first.put({EventKind::touch, line(7), 0, 0});         // no use of a page
        writer.finish({});
    }
    const TraceReader trace(file.path);
    const auto counters =
        replay_pages(trace, Tlb(two_levels({64, 4}, {512, 4}, small)), PageSize::small);
    REQUIRE(counters.size() == 2);
    CHECK(counters[0].walks_completed()[0] == 3);
    CHECK(counters[0].lookups == 4);
    CHECK(counters[1].walks_completed()[0] == 1);
    CHECK(counters[1].lookups == 2);
}
