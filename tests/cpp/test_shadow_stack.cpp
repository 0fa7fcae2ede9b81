// The shadow stack against sequences of calls and returns, among them those that leave frames
// without a ret.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tracer/shadow_stack.hpp"

using pagelens::Branch;
using pagelens::classify_branch;
using pagelens::ShadowStack;
using Addresses = std::vector<std::uint64_t>;

namespace {

Addresses snapshot(const ShadowStack& stack, std::size_t limit = 16) {
    Addresses out(limit);
    out.resize(stack.snapshot(out));
    return out;
}

}  // namespace

TEST_CASE("shadow stack: frames are innermost first and end with their ret") {
    ShadowStack stack;
    stack.call(0xa, 1000);
    stack.call(0xb, 900);
    stack.call(0xc, 800);
    CHECK(snapshot(stack) == Addresses{0xc, 0xb, 0xa});
    stack.ret(800);
    CHECK(snapshot(stack) == Addresses{0xb, 0xa});
    stack.call(0xd, 700);  // a lower slot than the first callee's: its frame must be gone already
    CHECK(snapshot(stack) == Addresses{0xd, 0xb, 0xa});
}

TEST_CASE("shadow stack: longjmp and exceptions leave frames without a ret") {
    ShadowStack stack;
    stack.call(0xa, 1000);
    stack.call(0xb, 900);
    stack.call(0xc, 800);
    SUBCASE("the next call of the catching function reuses its slot") {
        stack.call(0xd, 900);
        CHECK(snapshot(stack) == Addresses{0xd, 0xa});
    }
    SUBCASE("the catching function returns") {
        stack.ret(1000);
        CHECK(snapshot(stack).empty());
    }
}

TEST_CASE("shadow stack: a tail call's ret ends the frame of the caller") {
    ShadowStack stack;
    stack.call(0xa, 1000);
    stack.call(0xb, 900);  // this function jumps to another, which returns in its place
    stack.ret(900);
    CHECK(snapshot(stack) == Addresses{0xa});
}

TEST_CASE("shadow stack: a ret that no call was seen for changes nothing") {
    ShadowStack stack;
    stack.call(0xa, 1000);
    stack.ret(500);
    CHECK(snapshot(stack) == Addresses{0xa});
}

TEST_CASE("shadow stack: recursion is one frame of a snapshot") {
    ShadowStack stack;
    stack.call(0xa, 100'000);
    for (std::uint64_t depth = 1; depth <= 100; ++depth)
        stack.call(depth % 2 == 0 ? 0xb : 0xc, 100'000 - 16 * depth);
    CHECK(stack.depth() == 101);
    CHECK(snapshot(stack) == Addresses{0xb, 0xc, 0xa});
}

TEST_CASE("shadow stack: what is deeper than its capacity loses the outermost frames") {
    ShadowStack stack;
    const std::uint64_t deep = ShadowStack::capacity + 1;
    const std::uint64_t top = 1'000'000;
    for (std::uint64_t i = 0; i < deep - 1; ++i) stack.call(i, top - 16 * i);
    CHECK(stack.depth() == ShadowStack::capacity);
    stack.call(deep - 1, top - 16 * (deep - 1));
    CHECK(stack.depth() == ShadowStack::capacity / 2 + 1);
    for (std::uint64_t i = deep; i-- > ShadowStack::capacity / 2;) {
        CHECK(snapshot(stack, 1) == Addresses{i});
        stack.ret(top - 16 * i);
    }
    CHECK(stack.depth() == 0);
    stack.ret(top);  // of frames that were forgotten
    CHECK(stack.depth() == 0);
}

TEST_CASE("shadow stack: equals an unbounded model under random calls, returns and longjmps") {
    std::mt19937_64 random(1);
    ShadowStack stack;
    struct Frame {
        std::uint64_t address, slot;
    };
    std::vector<Frame> model;
    for (int step = 0; step < 100'000; ++step) {
        const auto choice = random() % 100;
        if (model.size() < 200 && (model.empty() || choice < 50)) {
            const std::uint64_t above = model.empty() ? 1 << 20 : model.back().slot;
            model.push_back({0x1000 + model.size() * 8, above - 8 * (1 + random() % 50)});
            stack.call(model.back().address, model.back().slot);
        } else if (choice < 98) {
            stack.ret(model.back().slot);
            model.pop_back();
        } else {  // unwound without rets: the function that stays returns or calls next
            model.resize(1 + random() % model.size());
            stack.ret(model.back().slot);
            model.pop_back();
        }
        REQUIRE(stack.depth() == model.size());
        const Addresses seen = snapshot(stack, 4);
        for (std::size_t i = 0; i < seen.size(); ++i)
            REQUIRE(seen[i] == model[model.size() - 1 - i].address);
    }
}

TEST_CASE("branches: calls and returns are told from what resembles them") {
    const auto branch = [](std::vector<std::uint8_t> bytes) {
        return classify_branch(bytes.data(), bytes.size());
    };
    CHECK(branch({0xe8, 1, 2, 3, 4}) == Branch::call);              // call rel32
    CHECK(branch({0x66, 0x48, 0xe8, 1, 2, 3, 4}) == Branch::call);  // call __tls_get_addr
    CHECK(branch({0x67, 0xe8, 1, 2, 3, 4}) == Branch::call);        // relaxed by the linker
    CHECK(branch({0xff, 0xd0}) == Branch::call);                    // call *%rax
    CHECK(branch({0x41, 0xff, 0xd4}) == Branch::call);              // call *%r12
    CHECK(branch({0xff, 0x15, 1, 2, 3, 4}) == Branch::call);        // call *disp(%rip)
    CHECK(branch({0x3e, 0xff, 0xd0}) == Branch::call);              // notrack call *%rax
    CHECK(branch({0xc3}) == Branch::ret);
    CHECK(branch({0xf3, 0xc3}) == Branch::ret);
    CHECK(branch({0xf2, 0xc3}) == Branch::ret);
    CHECK(branch({0xc2, 8, 0}) == Branch::ret);
    CHECK(branch({0xff, 0xe0}) == Branch::none);              // jmp *%rax
    CHECK(branch({0xff, 0x35, 1, 2, 3, 4}) == Branch::none);  // push disp(%rip)
    CHECK(branch({0xe9, 1, 2, 3, 4}) == Branch::none);        // jmp rel32
    CHECK(branch({0x48, 0xc3}) == Branch::ret);
    CHECK(branch({0x0f, 0xc3, 0x07}) == Branch::none);        // movnti
    CHECK(branch({0xc5, 0xe8, 0x58, 0xc0}) == Branch::none);  // vaddps: e8 is not its opcode
    CHECK(branch({0xff}) == Branch::none);
    CHECK(branch({}) == Branch::none);
}
