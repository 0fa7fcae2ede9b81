// What code writes pages first: what the tracer tells of it, and how it meets the pages of a walk.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/accesses/first_writers.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"
#include "tracer/written_pages.hpp"

using namespace pagelens;

namespace {

// Thread 1 writes pages 5 to 7 first, and later page 6 once more, which it had given back.
constexpr std::uint64_t begin = 1 << 20, later = begin + 5000;
const std::vector<FirstWrites> runs{{1, begin, begin + 800, 3, 5, 3}, {1, later, later, 4, 6, 1}};

std::uint64_t writer_of(unsigned thread, std::uint64_t count, std::uint64_t page) {
    FirstWriters writers(runs, 2);
    writers.write(thread, count, page, 9);
    const std::vector<FirstWriter> found = writers.found();
    if (found.empty()) return 0;
    CHECK(found[0].object == 9);
    CHECK(found[0].pages == 1);
    return found[0].writer;
}

}  // namespace

TEST_CASE("first writers: a page's is that of the run at the time of its first write") {
    CHECK(writer_of(1, begin - 10, 5) == 3);
    CHECK(writer_of(1, begin - 10, 7) == 3);
    CHECK(writer_of(1, begin + 800, 6) == 3);
    CHECK(writer_of(1, begin + 801, 6) == 4);
    CHECK(writer_of(1, later, 6) == 4);
    CHECK(writer_of(1, begin + 1 - FirstWriters::grain, 6) == 3);
}

TEST_CASE("first writers: no run at that time, of that thread or with that page tells nothing") {
    CHECK(writer_of(1, begin - FirstWriters::grain, 6) == 0);
    CHECK(writer_of(1, later + 1, 6) == 0);
    CHECK(writer_of(0, begin, 6) == 0);
    CHECK(writer_of(1, begin, 4) == 0);
    CHECK(writer_of(1, begin, 8) == 0);
}

TEST_CASE("trace: writers and what they write first come back") {
    const TemporaryFile file;
    {
        TraceWriter writer(file.path, {});
        writer.define(WriterDefinition{3, 1ull << 33, 12, {0x401000, 1ull << 46}});
        for (const FirstWrites& run : runs) writer.define(run);
        writer.finish({});
    }
    const TraceReader reader(file.path);
    CHECK(!reader.damage());
    REQUIRE(reader.writers().size() == 1);
    CHECK(reader.writers()[0].id == 3);
    CHECK(reader.writers()[0].block == 1ull << 33);
    CHECK(reader.writers()[0].instruction == 12);
    CHECK(reader.writers()[0].return_addresses == std::vector<std::uint64_t>{0x401000, 1ull << 46});
    REQUIRE(reader.first_writes().size() == 2);
    CHECK(reader.first_writes()[0].first_instruction == begin);
    CHECK(reader.first_writes()[0].last_instruction == begin + 800);
    CHECK(reader.first_writes()[1].page == 6);
    CHECK(reader.first_writes()[1].pages == 1);
}

TEST_CASE("written pages: each is new once, and again when it was given back") {
    WrittenPages pages;
    const std::uint64_t far = (1ull << 35) - 1;
    for (const std::uint64_t page :
         {std::uint64_t{0}, std::uint64_t{63}, std::uint64_t{64}, std::uint64_t{1} << 18, far}) {
        CHECK(pages.write(page));
        CHECK_FALSE(pages.write(page));
    }
    CHECK_FALSE(pages.write(1ull << 35));  // no program has pages there
    pages.forget(1, 63);                   // 1 to 63
    CHECK_FALSE(pages.write(0));
    CHECK(pages.write(63));
    CHECK_FALSE(pages.write(64));
    pages.forget(64, far);
    CHECK(pages.write(64));
    CHECK(pages.write(1ull << 18));
    CHECK(pages.write(far));
    CHECK_FALSE(pages.write(63));
}
