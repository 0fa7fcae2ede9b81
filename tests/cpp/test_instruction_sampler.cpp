// What the tracer samples of a thread's instructions, and how it comes to the file and back.
#include <doctest/doctest.h>

#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"
#include "tracer/code_blocks.hpp"
#include "tracer/instruction_sampler.hpp"

using namespace pagelens;

TEST_CASE("access place: every part comes back") {
    const AccessPlace place = AccessPlace(0xfedcba98, 512).at(511).with_later(510);
    CHECK(place.block() == 0xfedcba98);
    CHECK(place.instructions() == 512);
    CHECK(place.instruction() == 511);
    CHECK(place.later() == 510);
    CHECK_FALSE(place.early());
    CHECK(place.as_early().early());
    CHECK(place.as_string().string());
    CHECK(place.as_early().as_string().later() == 510);
}

TEST_CASE("instruction sampler: accesses before their block is counted are those of the next one") {
    InstructionSampler sampler;
    sampler.begin(3, 1000);
    const AccessPlace seven(7, 4), nine(9, 2);
    sampler.block(7);
    sampler.access(seven.at(2), 100, false);
    sampler.access(nine.at(0).as_early(), 101, true);
    sampler.access(nine.at(1), 999, false);  // of a block that is not executed: left out
    sampler.block(9);
    sampler.access(nine.at(1), 102, false);
    const InstructionSample sample = sampler.end();
    CHECK(sample.thread == 3);
    CHECK(sample.blocks == std::vector<std::uint64_t>{7, 9});
    const std::vector<SampledAccess> accesses{
        {0, 2, false, 100}, {1, 0, true, 101}, {1, 1, false, 102}};
    CHECK(sample.accesses == accesses);
}

TEST_CASE("instruction sampler: samples grow apart, and a new phase has one soon") {
    InstructionSampler sampler;
    unsigned samples = 0;
    for (std::uint64_t now = 0; now < 1u << 30; now += 4096)
        if (sampler.due(now)) {
            sampler.begin(0, now);
            ++samples;
        }
    CHECK(samples > 500);
    CHECK(samples < 3000);
    sampler.enter_phase(5, 1u << 30);
    CHECK(sampler.due((1u << 30) + InstructionSampler::soon));
}

TEST_CASE("code blocks: a block keeps its number, and is defined once") {
    CodeBlocks blocks;
    const auto first = blocks.number(0x1000, "\x90\x90");
    CHECK(blocks.number(0x1000, "\x90") != first);
    CHECK(blocks.number(0x1000, "\x90\x90") == first);
    unsigned defined = 0;
    const std::vector<std::uint64_t> used{first, first, 0};
    const auto define = [&](const CodeBlockDefinition& block) {
        ++defined;
        CHECK(block.id == first);
    };
    blocks.define_new(used, define);
    blocks.define_new(used, define);
    CHECK(defined == 1);
    blocks.forget_definitions();
    blocks.define_new(used, define);
    CHECK(defined == 2);
}

TEST_CASE("trace: blocks of code and samples come back") {
    const TemporaryFile file;
    const InstructionSample sample{
        1, 1ull << 40, 2, {5, 9, 5, 1ull << 33}, {{0, 3, true, 1ull << 50}, {2, 0, false, 7}}};
    {
        TraceWriter writer(file.path, {});
        writer.define(CodeBlockDefinition{5, 0x400000, std::string("\x00\x90\xff", 3)});
        writer.define(sample);
        writer.finish({});
    }
    const TraceReader reader(file.path);
    CHECK(!reader.damage());
    REQUIRE(reader.code_blocks().size() == 1);
    CHECK(reader.code_blocks()[0].address == 0x400000);
    CHECK(reader.code_blocks()[0].bytes == std::string("\x00\x90\xff", 3));
    REQUIRE(reader.samples().size() == 1);
    const InstructionSample& read = reader.samples()[0];
    CHECK(read.thread == 1);
    CHECK(read.first_instruction == 1ull << 40);
    CHECK(read.phase == 2);
    CHECK(read.blocks == sample.blocks);
    CHECK(read.accesses == sample.accesses);
}
