// Which instruction of a sample writes a page first.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/accesses/first_writers.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t begin = 1'000'000, page = 5, line = page * lines_per_page;

// Block 7 reads the page, block 8 writes it with its instruction 2, and then with another one.
InstructionSample sample_at(std::uint64_t first_instruction) {
    return {.thread = 1,
            .first_instruction = first_instruction,
            .phase = 0,
            .blocks = {7, 8},
            .accesses = {{0, 0, false, line}, {1, 2, true, line + 3}, {1, 3, true, line}}};
}

std::vector<FirstWriter> found(unsigned thread, std::uint64_t from, std::uint64_t until,
                               std::uint64_t written = page) {
    const std::vector<InstructionSample> samples{sample_at(3 * begin), sample_at(begin)};
    FirstWriters writers(samples, 2);
    writers.write(thread, from, until, written, 9);
    return writers.found();
}

}  // namespace

TEST_CASE("first writers: the first store to the page, in the sample of its first write") {
    const std::vector<FirstWriter> writers = found(1, begin, begin + 4200);
    REQUIRE(writers.size() == 1);
    CHECK(writers[0].object == 9);
    CHECK(writers[0].block == 8);
    CHECK(writers[0].instruction == 2);
    CHECK(writers[0].pages == 1);
    CHECK(found(1, 3 * begin, 3 * begin + 10).size() == 1);
    CHECK(found(1, begin - 5, begin + 1).size() == 1);
}

TEST_CASE("first writers: a first write outside of samples, or of another thread, tells nothing") {
    CHECK(found(1, begin - 4096, begin).empty());
    CHECK(found(1, begin + sample_instructions, begin + 5000).empty());
    CHECK(found(1, begin + sample_instructions - 1, begin + 5000).size() == 1);
    CHECK(found(0, begin, begin + 4200).empty());
    CHECK(found(1, begin, begin + 4200, page + 1).empty());
}
