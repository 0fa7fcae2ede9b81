// The pipeline of a core takes what the dependences, the pipes and the window of instructions ask.
#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <vector>

#include "core/machine/branch_prediction.hpp"
#include "core/machine/pipeline.hpp"

using namespace pagelens;

namespace {

PipelineShape small_shape() {
    PipelineShape shape;
    shape.width = 4;
    shape.retire_width = 4;
    shape.window = 64;
    shape.scheduler = 1000;
    shape.ports.fill(0b110000);
    shape.cycles.fill(1);
    shape.every.fill(1);
    return shape;
}

// Blocks of so many instructions each, one after the other in memory.
Code code_of(const std::vector<std::vector<CodeInstruction>>& blocks) {
    Code code;
    code.begin.push_back(0);
    for (const auto& block : blocks) {
        code.address.push_back(4 * code.instructions.size());
        code.bytes.push_back(4 * block.size());
        code.instructions.insert(code.instructions.end(), block.begin(), block.end());
        code.begin.push_back(code.instructions.size());
    }
    return code;
}

CodeInstruction load(std::uint8_t address, std::uint8_t result) {
    CodeInstruction one;
    one.load = Access::integer;
    one.address[0] = address;
    one.results[0] = result;
    return one;
}

CodeInstruction add(std::uint8_t source, std::uint8_t result) {
    CodeInstruction one;
    one.operation = Operation::integer;
    one.sources[0] = source;
    one.results[0] = result;
    return one;
}

// Every block once after the other, all branches foreseen.
double cycles(const Code& code, std::size_t rounds, const PipelineShape& shape,
              std::uint32_t extra = 0) {
    std::vector<std::uint32_t> blocks;
    std::vector<SlowAccess> slow;
    for (std::size_t i = 0; i < rounds; ++i) {
        blocks.push_back(0);
        if (extra > 0) slow.push_back({i, 0, extra});
    }
    return pipeline_cycles(code, blocks, std::vector<std::uint8_t>(rounds, 1), {}, slow, shape);
}

// Cycle after cycle, oldest instruction first: integer operations and loads that hit L1.
std::uint64_t cycle_by_cycle(const std::vector<CodeInstruction>& all, const PipelineShape& shape) {
    constexpr std::uint64_t never = ~std::uint64_t{0};
    std::vector<std::uint64_t> dispatched(all.size(), never), done(all.size(), never);
    std::size_t retired = 0, entered = 0;
    std::uint64_t now = 0;
    const auto writer = [&](std::size_t before, std::uint8_t r) {
        for (std::size_t i = before; r != 0 && i-- > 0;)
            if (all[i].results[0] == r) return static_cast<std::int64_t>(i);
        return std::int64_t{-1};
    };
    for (;; ++now) {
        for (unsigned i = 0; i < shape.width && retired < entered && done[retired] <= now; ++i)
            if (++retired == all.size()) return now;
        for (unsigned i = 0;
             i < shape.width && entered < all.size() && entered - retired < shape.window; ++i)
            dispatched[entered++] = now;
        auto loads = static_cast<unsigned>(std::popcount(shape.load_ports));
        auto integers = static_cast<unsigned>(std::popcount(shape.ports[1]));
        for (std::size_t i = retired; i < entered; ++i) {
            if (done[i] != never || dispatched[i] >= now) continue;
            const bool is_load = all[i].load != Access::none;
            const std::int64_t of = writer(i, is_load ? all[i].address[0] : all[i].sources[0]);
            if (of >= 0 && done[static_cast<std::size_t>(of)] > now) continue;
            unsigned& pipes = is_load ? loads : integers;
            if (pipes == 0) continue;
            --pipes;
            done[i] = now + (is_load ? shape.load_cycles : 1);
        }
    }
}

}  // namespace

TEST_CASE("pipeline: a load whose address is the one before waits for it") {
    const Code chase = code_of({{load(1, 1)}});
    CHECK(cycles(chase, 1000, small_shape(), 300) == doctest::Approx(304'000).epsilon(0.01));
}

TEST_CASE("pipeline: results in flight are no more than there are registers for them") {
    PipelineShape shape = small_shape();  // a window of 64
    std::vector<CodeInstruction> round{load(1, 2)};
    for (int i = 0; i < 15; ++i) round.push_back(add(0, 3));
    const Code sums = code_of({round});  // 4 misses in the window, 16 results each
    const double four = cycles(sums, 1000, shape, 1000);
    CHECK(four == doctest::Approx(1000 * 1000 / 4).epsilon(0.05));
    shape.integer_results = 64;
    CHECK(cycles(sums, 1000, shape, 1000) == four);
    shape.integer_results = 32;
    CHECK(cycles(sums, 1000, shape, 1000) == doctest::Approx(2 * four).epsilon(0.05));
    for (std::size_t i = 1; i < 16; ++i) round[i].load = Access::integer, round[i].results[0] = 0;
    CHECK(cycles(code_of({round}), 1000, shape, 1000) == doctest::Approx(2 * four).epsilon(0.05));
    for (std::size_t i = 1; i < 16; ++i) {  // results that are no general registers', and copies
        round[i] = add(0, i % 2 == 0 ? last_general + 1 : 3);
        if (i % 2 != 0) round[i].operation = Operation::none;
    }
    CHECK(cycles(code_of({round}), 1000, shape, 1000) == doctest::Approx(four).epsilon(0.05));
}

TEST_CASE("pipeline: additions may have each other's results sooner than other operations do") {
    CodeInstruction sum, copied, product;
    sum.operation = Operation::fp_add;
    sum.sources[0] = sum.results[0] = 1;
    copied.sources[0] = copied.results[0] = 1;
    product = sum;
    product.operation = Operation::fp_multiply;
    PipelineShape shape = small_shape();
    for (const Operation of : {sum.operation, product.operation}) {
        const auto number = static_cast<std::size_t>(of);
        shape.ports[number] = 1;
        shape.cycles[number] = 3;
        shape.every[number] = 1;
    }
    CHECK(cycles(code_of({{sum}}), 1000, shape) == doctest::Approx(3000).epsilon(0.01));
    shape.add_to_add_cycles = 2;
    CHECK(cycles(code_of({{sum}}), 1000, shape) == doctest::Approx(2000).epsilon(0.01));
    CHECK(cycles(code_of({{sum, copied}}), 1000, shape) == doctest::Approx(2000).epsilon(0.01));
    CHECK(cycles(code_of({{sum, product}}), 1000, shape) == doctest::Approx(6000).epsilon(0.01));
    CHECK(cycles(code_of({{product}}), 1000, shape) == doctest::Approx(3000).epsilon(0.01));
}

TEST_CASE("pipeline: independent loads overlap as far as misses may be in flight") {
    const Code copy = code_of({{load(1, 2)}});
    PipelineShape shape = small_shape();
    for (const unsigned outstanding : {1u, 4u, 16u}) {
        shape.outstanding = outstanding;
        CHECK(cycles(copy, 1600, shape, 300) ==
              doctest::Approx(304.0 * 1600 / outstanding).epsilon(0.03));
    }
}

TEST_CASE("pipeline: no more misses overlap than the window holds") {
    CodeInstruction other;
    std::vector<CodeInstruction> block(32, other);
    block[0] = load(1, 2);
    CHECK(cycles(code_of({block}), 400, small_shape(), 300) ==
          doctest::Approx(304.0 * 400 / 2).epsilon(0.05));  // a window of 64 holds two of them
}

TEST_CASE("pipeline: a branch that was not foreseen waits for the load that it depends on") {
    CodeInstruction branch = add(2, 0);
    branch.operation = Operation::branch;
    branch.branch = BranchKind::conditional;
    const Code code = code_of({{load(1, 2), branch}});
    const std::vector<std::uint32_t> blocks(1000, 0);
    const std::vector<std::uint8_t> all(1000, 1), none(1000, 0);
    const PipelineShape shape = small_shape();
    const double seen = pipeline_cycles(code, blocks, all, {}, {}, shape);
    const double not_seen = pipeline_cycles(code, blocks, none, {}, {}, shape);
    CHECK(seen < 1.1 * 1000);
    CHECK(not_seen >= 1000.0 * (shape.load_cycles + shape.mispredict_cycles));
}

TEST_CASE("pipeline: a wrong path fetches lines that the right one has, too") {
    CodeInstruction branch = add(2, 0);
    branch.operation = Operation::branch;
    branch.branch = BranchKind::conditional;
    // A loop with `if (a[i]) ... else ...`, whose outcome is as good as random.
    const auto takes = [&](const std::vector<CodeInstruction>& each,
                           const std::vector<CodeInstruction>& taken,
                           const std::vector<CodeInstruction>& other) {
        const Code code = code_of({each, taken, other});
        std::mt19937_64 random(1);
        std::vector<std::uint32_t> blocks;
        std::vector<std::uint8_t> foreseen;
        std::vector<SlowAccess> slow;
        for (std::size_t i = 0; i < 1000; ++i) {
            slow.push_back({blocks.size(), 0, 300});
            blocks.insert(blocks.end(), {0, random() % 2 == 0 ? 1u : 2u});
            foreseen.insert(foreseen.end(), {static_cast<std::uint8_t>(i % 2), 1});
        }
        PipelineShape shape = small_shape();
        shape.outstanding = 64;
        return pipeline_cycles(code, blocks, foreseen, {}, slow, shape);
    };
    constexpr std::uint8_t index = 3;
    CodeInstruction next = add(index, index), back = next;
    next.constant = 4, back.constant = -4;
    const CodeInstruction nothing_else;
    // Else each of the 500 wrong guesses would wait for its line.
    constexpr double waiting = 500 * 304;
    const std::vector<CodeInstruction> each{load(index, 2), branch};
    CHECK(takes({load(index, 2), next, branch}, {add(4, 4)}, {nothing_else}) < 0.3 * waiting);
    CHECK(takes(each, {next}, {nothing_else, next}) < 0.3 * waiting);
    CHECK(takes(each, {next}, {back}) > 0.9 * waiting);  // the paths load from different places
    CHECK(takes({load(2, 2), branch}, {next}, {next}) > 2 * 0.9 * waiting);  // and here in a chain
}

TEST_CASE("pipeline: a load takes over what a store to the same address left") {
    CodeInstruction count;
    count.load = count.store = Access::integer;
    count.operation = Operation::integer;
    count.address[0] = 1;
    PipelineShape shape = small_shape();
    shape.forward_cycles = 5;
    CHECK(cycles(code_of({{count}}), 1000, shape) == doctest::Approx(6000).epsilon(0.01));
    CodeInstruction moved = add(1, 1);  // the address changes, by a constant that is known
    moved.origin = 1;
    moved.constant = 8;
    CHECK(cycles(code_of({{count, moved}}), 1000, shape) < 3000);
}

TEST_CASE(
    "pipeline: stores and loads that compute the same address in other registers are paired") {
    // Each round begins anew at offset 0 and adds 8 twice: what was stored there is loaded again.
    CodeInstruction zero, moved, first, again;
    zero.results[0] = 2;
    zero.origin = nothing;
    moved = add(2, 2);
    moved.origin = 2;
    moved.constant = 8;
    first.load = first.store = Access::integer;
    first.operation = Operation::integer;
    first.address = {1, 2};
    first.scale = 1;
    PipelineShape shape = small_shape();
    shape.forward_cycles = 9;
    CHECK(cycles(code_of({{zero, moved, first}}), 1000, shape) ==
          doctest::Approx(10'000).epsilon(0.01));
    // A base that is itself loaded from one place is one value as long as nothing is stored there.
    CodeInstruction base = load(5, 3);
    base.origin = loaded;
    again = first;
    again.address = {3, 0};
    CHECK(cycles(code_of({{base, again}}), 1000, shape) == doctest::Approx(10'000).epsilon(0.01));
    base.origin = 0;
    CHECK(cycles(code_of({{base, again}}), 1000, shape) < 3000);
}

TEST_CASE("pipeline: operations that share a port wait for each other") {
    CodeInstruction multiply = add(1, 2), shift = add(1, 3);
    multiply.operation = Operation::multiply;
    shift.operation = Operation::shift;
    PipelineShape shape = small_shape();
    const auto with = [&](Ports of_shifts) {
        shape.ports[static_cast<std::size_t>(Operation::multiply)] = 0b010000;
        shape.ports[static_cast<std::size_t>(Operation::shift)] = of_shifts;
        return cycles(code_of({{multiply, shift}}), 1000, shape);
    };
    CHECK(with(0b010000) == doctest::Approx(2000).epsilon(0.01));
    CHECK(with(0b100000) == doctest::Approx(1000).epsilon(0.01));
}

TEST_CASE("pipeline: a unit that is not pipelined takes the next after its time") {
    CodeInstruction divide = add(1, 2);
    divide.operation = Operation::divide;
    PipelineShape shape = small_shape();
    shape.every[static_cast<std::size_t>(Operation::divide)] = 7;
    CHECK(cycles(code_of({{divide}}), 1000, shape) == doctest::Approx(7000).epsilon(0.01));
}

TEST_CASE("pipeline: instructions that wait for a miss fill the scheduler before the window") {
    // A load and seven that need its result: of two misses the second is dispatched only if there
    // is room for those that wait for the first.
    std::vector<CodeInstruction> block{load(1, 2)};
    for (int i = 0; i < 7; ++i) block.push_back(add(2, 3));
    PipelineShape shape = small_shape();
    const auto with = [&](unsigned entries) {
        shape.scheduler = entries;
        return cycles(code_of({block}), 400, shape, 300);
    };
    CHECK(with(64) < 0.2 * 304 * 400);
    CHECK(with(8) == doctest::Approx(0.5 * 304 * 400).epsilon(0.05));  // the next load still enters
}

TEST_CASE("pipeline: what is fetched from afar takes its time, more so after a wrong guess") {
    std::vector<CodeInstruction> block(4);
    block[3].branch = BranchKind::conditional;
    block[3].operation = Operation::branch;
    const Code code = code_of({block});
    const std::vector<std::uint32_t> blocks(1000, 0);
    const std::vector<std::uint8_t> all(1000, 1), none(1000, 0);
    const std::vector<FetchCycles> slow{{5, 40}}, quick{{1, 0}};
    const PipelineShape shape = small_shape();
    CHECK(pipeline_cycles(code, blocks, all, slow, {}, shape) ==
          doctest::Approx(5000).epsilon(0.05));
    CHECK(pipeline_cycles(code, blocks, all, quick, {}, shape) < 2000);
    CHECK(pipeline_cycles(code, blocks, none, slow, {}, shape) -
              pipeline_cycles(code, blocks, none, quick, {}, shape) ==
          doctest::Approx(44'000).epsilon(0.05));
}

TEST_CASE("pipeline: the same cycles as an obvious one that goes cycle by cycle") {
    std::mt19937_64 random(3);
    for (int trial = 0; trial < 200; ++trial) {
        PipelineShape shape = small_shape();
        const auto upto = [&](unsigned most) { return 1 + static_cast<unsigned>(random() % most); };
        shape.width = shape.retire_width = upto(6);
        shape.window = 3 + upto(40);
        shape.load_ports = (1u << upto(3)) - 1;
        shape.ports.fill(((1u << upto(4)) - 1) << 4);
        std::vector<CodeInstruction> all;
        for (int i = 0; i < 7; ++i) {  // fewer than eight: nothing is taken off for filling
            const auto from = static_cast<std::uint8_t>(1 + random() % 6);
            const auto to = static_cast<std::uint8_t>(1 + random() % 6);
            all.push_back(random() % 2 == 0 ? load(from, to) : add(from, to));
        }
        const Code code = code_of({all});
        CHECK(cycles(code, 1, shape) == cycle_by_cycle(all, shape));
    }
}

TEST_CASE("branches: a pattern is foreseen, chance is not") {
    std::mt19937_64 random(4);
    CodeInstruction branch;
    branch.branch = BranchKind::conditional;
    // Block 0 goes on to block 1 or skips it; block 1 and block 2 go on.
    const Code code = code_of({{branch}, {CodeInstruction{}}, {CodeInstruction{}}});
    const auto wrong = [&](auto taken) {
        std::vector<std::vector<std::uint32_t>> samples(20);
        double executed = 0, found = 0;
        for (auto& sample : samples)
            for (unsigned i = 0; i < 500; ++i) {
                sample.push_back(0);
                if (!taken(i)) sample.push_back(1);
                sample.push_back(2);
            }
        const auto foreseen = foreseen_branches(code, samples);
        for (std::size_t s = 0; s < samples.size(); ++s)
            for (std::size_t i = 0; i < samples[s].size(); ++i)
                if (samples[s][i] == 0) {
                    ++executed;
                    found += foreseen[s][i] == 0;
                }
        return found / executed;
    };
    CHECK(wrong([](unsigned) { return true; }) < 0.01);
    CHECK(wrong([](unsigned i) { return i % 3 == 0; }) < 0.02);
    CHECK(wrong([&](unsigned) { return random() % 2 == 0; }) > 0.4);
    CHECK(wrong([&](unsigned) { return random() % 10 == 0; }) == doctest::Approx(0.1).epsilon(0.3));
}
