// Files that are cut or damaged: what comes before is read whole, the fault has its place.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "core/accesses/compile.hpp"
#include "core/accesses/event_decoder.hpp"
#include "core/accesses/survey.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

using Bytes = std::vector<char>;

Bytes bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, std::span<const char> bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Three chunks of events, of 10 lines each.
Bytes small_trace() {
    const TemporaryFile file;
    TraceWriter writer(file.path, {{{64, 8}}, {16, 4}, "test", "app", {}});
    writer.define(CallSiteDefinition{1, {0x1234}});
    ThreadEncoder& encoder = writer.thread(5);
    for (std::uint64_t i = 0; i < 30; ++i) {
        encoder.put({EventKind::read, 1000 + i * i, 0, 0});
        if (i % 10 == 9) encoder.flush();
    }
    writer.finish({});
    return bytes_of(file.path);
}

std::size_t events_in(const TraceReader& reader) {
    std::size_t count = 0;
    for (std::size_t thread = 0; thread < reader.threads().size(); ++thread) {
        ThreadStream stream = reader.stream(thread);
        while (const auto batch = stream.next()) {
            for (const Event& event : batch->events) {
                CHECK(event.address == 1000 + count * count);
                ++count;
            }
        }
        CHECK(!stream.fault());
    }
    return count;
}

}  // namespace

TEST_CASE("damaged trace: cut anywhere, it is read to its last whole chunk") {
    const Bytes whole = small_trace();
    const TemporaryFile file;
    std::size_t most = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
        write(file.path, std::span(whole).first(size));
        try {
            const TraceReader reader(file.path);
            REQUIRE(reader.damage());
            CHECK(reader.damage()->position <= size);
            const std::size_t events = events_in(reader);
            CHECK(events % 10 == 0);
            CHECK(events >= most);  // a longer file never has less
            most = events;
        } catch (const TraceError&) {
            CHECK(most == 0);  // not even a header
        }
    }
    CHECK(most == 30);  // only the summary was missing
}

TEST_CASE("damaged trace: no flipped bit goes unnoticed") {
    const Bytes whole = small_trace();
    const TemporaryFile file;
    for (std::size_t at = trace_preamble_bytes; at < whole.size(); ++at) {
        Bytes bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
        write(file.path, bytes);
        try {
            const TraceReader reader(file.path);
            REQUIRE(reader.damage());
            CHECK(events_in(reader) % 10 == 0);
        } catch (const TraceError&) {
        }
    }
}

TEST_CASE("damaged trace: errors say what the file is") {
    const TemporaryFile file;
    const auto error = [&](std::span<const char> bytes) -> std::string {
        write(file.path, bytes);
        try {
            const TraceReader reader(file.path);
        } catch (const TraceError& fault) {
            return fault.what();
        }
        return "none";
    };
    Bytes bytes = small_trace();
    CHECK(error(bytes) == "none");
    CHECK(error({}).find("not a trace") != std::string::npos);
    bytes[8] = trace_version + 1;
    CHECK(error(bytes).find("version " + std::to_string(trace_version + 1)) != std::string::npos);
    CHECK_THROWS_AS(TraceReader("/nonexistent/file"), TraceError);
    CHECK_THROWS_AS(TraceReader("/"), TraceError);
}

TEST_CASE("damaged trace: what fits under the limit of a file's size is kept, and finished") {
    ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    std::size_t least = SIZE_MAX, most = 0;
    for (::rlim_t limit = 300; limit < 900; limit += 7) {
        const TemporaryFile file;
        ::rlimit lower = before;
        lower.rlim_cur = limit;
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &lower) == 0);
        TraceWriter writer(file.path, {});
        for (std::uint64_t i = 0; i < 200; ++i) {
            if (i % 10 == 0) writer.thread(0).stamp((i / 10 + 1) << 20);
            writer.thread(0).put({EventKind::read, 1000 + i * i, 0, 0});
            if (i % 10 == 9) writer.thread(0).flush();
        }
        const TraceSummary summary = writer.finish({20 << 20, 2000, 40 << 20, 3});
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(writer.error() == EFBIG);
        REQUIRE(writer.readable());
        const TraceReader reader(file.path);
        CHECK(!reader.damage());
        const std::size_t events = events_in(reader);
        REQUIRE(events % 10 == 0);
        CHECK(summary.instructions == (events / 10) << 20);
        CHECK(summary.accesses == events * 10);
        CHECK(summary.exit_status == 3);
        REQUIRE(reader.summary());
        CHECK(reader.summary()->accesses == summary.accesses);
        least = std::min(least, events), most = std::max(most, events);
    }
    CHECK(least > 0);
    CHECK(most > least);
}

TEST_CASE("damaged trace: nothing is written when the disk is full, and the first error stays") {
    if (!std::filesystem::exists("/dev/full")) return;
    TraceWriter writer("/dev/full", {});
    CHECK(writer.error() == ENOSPC);
    writer.thread(0).put({EventKind::read, 1, 0, 0});
    writer.finish({});
    CHECK(writer.error() == ENOSPC);
}

TEST_CASE("damaged trace: a forked child's writer leaves the file alone") {
    const TemporaryFile file;
    TraceWriter writer(file.path, {});
    const auto before = std::filesystem::file_size(file.path);
    writer.thread(0).put({EventKind::read, 1, 0, 0});
    writer.abandon();
    writer.finish({});
    CHECK(std::filesystem::file_size(file.path) == before);
}

TEST_CASE("damaged trace: each line event has its touches and their end") {
    constexpr std::uint8_t line = code_line, touch = code_touch;
    const auto good = [](std::vector<std::uint8_t> payload) {
        detail::ChunkDecoder chunk(payload, 0);
        std::vector<Event> events(100);
        while (chunk.ok() && !chunk.at_end()) chunk.decode(events);
        return chunk.ok();
    };
    CHECK(good({4, line, 2, line, 2, touch, touches_end, touches_end}));
    CHECK(!good({4, line, 2, line, 2, touch, touches_end}));
    CHECK(!good({4, line, 2, line, 2, touch, line, touches_end}));
    CHECK(!good({2, line, 2, touches_end, touch}));  // touches of no event
    CHECK(!good({9, line, 2, touches_end}));         // more codes than bytes
}

TEST_CASE("a trace of each version, as it was first written, is read for ever") {
    for (const std::string version : {"2"}) {
        CAPTURE(version);
        const TraceReader reader(PAGELENS_TEST_DATA "/trace-version-" + version + ".bin");
        CHECK(!reader.damage());
        CHECK(reader.header().program == "/bin/golden");
        CHECK(reader.header().exact_for == std::vector<CacheShape>{{64, 8}, {512, 2}});
        REQUIRE(reader.modules().size() == 1);
        CHECK(reader.modules()[0].file_backed.size() == 1);
        REQUIRE(reader.summary());
        CHECK(reader.summary()->exit_status == 3);
        const Survey found = survey(reader);
        CHECK(found.phases == std::vector<std::string>{"(outside regions)", "solve"});
        CHECK(found.lines_fetched == 6000);
        CHECK(found.lines_stored == 3000);
        CHECK(found.line_events == 6100);
        CHECK(found.peak_pages == 47);
        CHECK(found.instructions == std::vector<std::uint64_t>{900'000, 70'000});
        CHECK(found.objects.back().births == 1);
        CHECK(found.objects.back().lines_fetched == 3000);
        const auto program = compile(reader, {{{{64, 8}, 1}}, 12});
        CHECK(program->lines() == 3000 + 64 + 3000);  // fetched by each thread, written back
    }
}

TEST_CASE("a trace whose end is missing can say why") {
    const Bytes whole = small_trace();
    const TemporaryFile file;
    write(file.path, std::span(whole).first(whole.size() - 20));  // within the summary
    const std::optional<TraceFault> damage = TraceReader(file.path).damage();
    REQUIRE(damage);
    CHECK_FALSE(TraceReader(file.path).end());
    CHECK(append_end(file.path, damage->position, {EndKind::signal, 9, 30}) == 0);
    const TraceReader reader(file.path);
    CHECK(reader.end() == TraceEnd{EndKind::signal, 9, 30});
    CHECK_FALSE(reader.summary());
    REQUIRE(reader.damage());
    CHECK(reader.damage()->what == "the end of the trace is missing");
    CHECK(events_in(reader) == 30);
    CHECK(append_end("/none/trace", 0, {}) == ENOENT);
}

TEST_CASE("a trace says which budget ended it, and one of an older version nothing") {
    const TemporaryFile file;
    TraceWriter writer(file.path, {{{64, 8}}, {16, 4}, "test", "app", {}});
    writer.finish({}, {EndKind::budget, 500});
    CHECK(TraceReader(file.path).end() == TraceEnd{EndKind::budget, 500});
    CHECK_FALSE(TraceReader(PAGELENS_TEST_DATA "/trace-version-2.bin").end());
    CHECK(TraceReader(PAGELENS_TEST_DATA "/trace-version-2.bin").header().began == 0);
}
