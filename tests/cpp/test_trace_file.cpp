// What is written is read again: any events, any definitions, any number of threads.
#include <doctest/doctest.h>

#include <array>
#include <random>

#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

bool same(const Event& a, const Event& b) {
    return a.kind == b.kind && a.address == b.address && a.count == b.count && a.extra == b.extra;
}

// Walks and jumps of a few streams, with all other events in between.
std::vector<Event> random_events(std::mt19937_64& random, std::size_t count) {
    std::vector<Event> events;
    std::array<std::uint64_t, 5> lines{};
    for (auto& line : lines) line = random() >> 8;
    std::uint64_t instructions = 0;
    while (events.size() < count) {
        const auto kind = static_cast<EventKind>(random() % 8 != 0 ? random() % 6 : random() % 18);
        const std::uint64_t size = random() >> (random() % 64);
        switch (kind) {
            case EventKind::page_read:
            case EventKind::page_write:
                events.push_back({kind, random() >> 12, 1, 0});
                break;
            case EventKind::unmap:
            case EventKind::discard:
                events.push_back({kind, random() >> 13, size >> 13, 0});
                break;
            case EventKind::remap:
                events.push_back({kind, random() >> 13, size >> 13, random() >> 13});
                break;
            case EventKind::map_file:
                events.push_back({kind, random() >> 13, size >> 13, random() >> 1});
                break;
            case EventKind::advise:
                events.push_back({kind, random() >> 13, size >> 13, random() % 2});
                break;
            case EventKind::birth:
                events.push_back({kind, random() >> 1, size >> 1, random()});
                break;
            case EventKind::death:
                events.push_back({kind, random(), 0, 0});
                break;
            case EventKind::phase:
            case EventKind::sync:
            case EventKind::wait:
                instructions += size >> 20;
                events.push_back({kind, 0, instructions, random()});
                break;
            default: {
                std::uint64_t& line = lines[random() % lines.size()];
                if (random() % 16 == 0) line = random() >> (6 + random() % 40);
                line = (line + (random() % 4 == 0 ? random() % 9 - 4 : 1)) % (1ull << 58);
                events.push_back({kind, line, 0, 0});
            }
        }
    }
    return events;
}

std::vector<Event> read_all(ThreadStream stream) {
    std::vector<Event> events;
    while (const auto batch = stream.next())
        events.insert(events.end(), batch->events.begin(), batch->events.end());
    CHECK(!stream.fault());
    return events;
}

}  // namespace

TEST_CASE("trace: any events of several threads come back in order") {
    std::mt19937_64 random(1);
    const TemporaryFile file;
    std::array<std::vector<Event>, 3> written;
    {
        TraceWriter writer(file.path, {});
        for (std::uint32_t thread = 0; thread < 3; ++thread)
            written[thread] = random_events(random, 200'000);  // several chunks each
        for (std::size_t i = 0; i < 200'000; i += 100)
            for (std::uint32_t thread = 0; thread < 3; ++thread)
                writer.thread(7 * thread).put(std::span(written[thread]).subspan(i, 100));
        writer.finish({});
        CHECK(writer.error() == 0);
    }
    const TraceReader reader(file.path);
    CHECK(!reader.damage());
    REQUIRE(reader.threads().size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        const std::uint32_t id = reader.threads()[i];
        const std::vector<Event> read = read_all(reader.stream(i));
        CHECK(std::equal(read.begin(), read.end(), written[id / 7].begin(), written[id / 7].end(),
                         same));
    }
}

TEST_CASE("trace: touches that nobody wants are left out and counted, all others as they were") {
    std::mt19937_64 random(2);
    const TemporaryFile file;
    {
        TraceWriter writer(file.path, {});
        // Some sets have more lines than the history, some events more touches than can be told by
        // their places, and some none.
        for (int i = 0; i < 100'000; ++i) {
            const std::uint64_t set = random() % 8;
            const auto line = [&] { return random() % (set == 0 ? 12 : 5) * 64 + set * 7; };
            for (std::uint64_t touches = random() % 11; touches > 0; --touches)
                writer.thread(0).put(Event{EventKind::touch, line(), 0, 0});
            writer.thread(0).put(Event{static_cast<EventKind>(random() % 4), line(), 0, 0});
        }
        writer.finish({});
    }
    const TraceReader reader(file.path);
    const std::vector<Event> all = read_all(reader.stream(0));
    for (const LineSets sets : {LineSets{0}, LineSets{1} << 7 | LineSets{1} << 21, LineSets{1}}) {
        CAPTURE(sets);
        const auto wanted = [&](const Event& event) {
            return (sets >> event.address % 64 & 1) != 0;
        };
        std::size_t at = 0, left_out = 0;
        for (const Event& event : read_all(reader.stream(0, sets))) {
            if (wanted(event)) CHECK(event.count == 0);
            for (std::uint64_t i = 0; i < event.count; ++i, ++at) {
                REQUIRE(at < all.size());
                CHECK(all[at].kind == EventKind::touch);
                CHECK(all[at].address % 64 == event.address % 64);
            }
            left_out += event.count;
            REQUIRE(at < all.size());
            CHECK(same(all[at++], Event{event.kind, event.address, 0, 0}));
        }
        CHECK(at == all.size());
        CHECK(left_out > 50'000);
    }
}

TEST_CASE("trace: header, definitions and summary come back") {
    const TemporaryFile file;
    TraceHeader header{{{64, 8}, {512, 2}}, {64, 1}, "pagelens test", "/bin/app", {"-n", ""}};
    TraceWriter writer(file.path, header);
    writer.define(ModuleDefinition{"/bin/app",
                                   std::string("\0\xff", 2),
                                   0x400000,
                                   0x401000,
                                   0x5000,
                                   {{0x401000, 0x1000}, {0x403000, 0x2000}}});
    writer.define(CallSiteDefinition{3, {0x401234, 0xffff'ffff'ffff'ffff}});
    writer.define(CallSiteDefinition{4, {}, "matrix"});
    writer.define(PhaseDefinition{1, "solve"});
    writer.define(RegionDefinition{RegionKind::stack, 0x7ffd'0000'0000, 8 << 20});
    writer.warn("half of it was not seen");
    writer.thread(1).put({EventKind::read, 5, 0, 0});
    writer.finish({1000, 300, 5000, 139});

    const TraceReader reader(file.path);
    CHECK(!reader.damage());
    CHECK(reader.header().exact_for == header.exact_for);
    CHECK(reader.header().page_filter == header.page_filter);
    CHECK(reader.header().producer == "pagelens test");
    CHECK(reader.header().program == "/bin/app");
    CHECK(reader.header().arguments == header.arguments);
    REQUIRE(reader.modules().size() == 1);
    CHECK(reader.modules()[0].path == "/bin/app");
    CHECK(reader.modules()[0].build_id == std::string("\0\xff", 2));
    CHECK(reader.modules()[0].base == 0x400000);
    CHECK(reader.modules()[0].start == 0x401000);
    CHECK(reader.modules()[0].size == 0x5000);
    CHECK(reader.modules()[0].file_backed ==
          std::vector<ByteRange>{{0x401000, 0x1000}, {0x403000, 0x2000}});
    REQUIRE(reader.call_sites().size() == 2);
    CHECK(reader.call_sites()[0].id == 3);
    CHECK(reader.call_sites()[0].return_addresses ==
          std::vector<std::uint64_t>{0x401234, 0xffff'ffff'ffff'ffff});
    CHECK(reader.call_sites()[0].name.empty());
    CHECK(reader.call_sites()[1].name == "matrix");
    REQUIRE(reader.phases().size() == 1);
    CHECK(reader.phases()[0].name == "solve");
    REQUIRE(reader.regions().size() == 1);
    CHECK(reader.regions()[0].kind == RegionKind::stack);
    CHECK(reader.regions()[0].start == 0x7ffd'0000'0000);
    CHECK(reader.warnings() == std::vector<std::string>{"half of it was not seen"});
    REQUIRE(reader.summary());
    CHECK(reader.summary()->instructions == 1000);
    CHECK(reader.summary()->accesses == 300);
    CHECK(reader.summary()->total_instructions == 5000);
    CHECK(reader.summary()->exit_status == 139);
}

TEST_CASE("trace: stamps hold across chunks") {
    const TemporaryFile file;
    TraceWriter writer(file.path, {});
    ThreadEncoder& encoder = writer.thread(0);
    for (std::uint64_t i = 1; i <= 4; ++i) {
        encoder.stamp(stamp_grain * i);
        encoder.stamp(500);  // no way back
        encoder.put({EventKind::write, i, 0, 0});
        if (i % 2 == 0) encoder.flush();
    }
    encoder.stamp(4 * stamp_grain + 9);  // the last count is kept, however close
    writer.finish({});
    const TraceReader reader(file.path);
    ThreadStream stream = reader.stream(0);
    std::uint64_t last = 0;
    while (const auto batch = stream.next()) {
        for (const Event& event : batch->events)
            CHECK(batch->instructions == stamp_grain * event.address);
        last = batch->until;
    }
    CHECK(last == 4 * stamp_grain + 9);
}

TEST_CASE("trace: the next line of a stream costs nearly nothing") {
    const TemporaryFile file;
    TraceWriter writer(file.path, {});
    const std::uint64_t before = writer.bytes_written();
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {  // a copy loop
        writer.thread(0).put({EventKind::read, 1'000'000 + i, 0, 0});
        writer.thread(0).put({EventKind::write, 9'000'000 + i, 0, 0});
    }
    writer.finish({});
    CHECK(writer.bytes_written() - before < 2'000'000 / 100);  // a repeated pattern costs nothing
}
