// The tracer's self-test at the first call notices a QEMU that reports otherwise than assumed.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tracer/self_test.hpp"

using namespace pagelens;

namespace {

constexpr qemu_plugin_meminfo_t load = 1 << 16, store = 1 << 17, eight_bytes = 3 << 4;
constexpr std::uint64_t return_address = 0x401234;

// The guest's stack: guest address `slot` is in this process at guest_base + slot.
struct Guest {
    std::uint64_t stack[4] = {7, return_address, 9, 0};
    std::uint64_t slot = 0x7000;
    std::uint64_t base() const { return reinterpret_cast<std::uint64_t>(&stack[1]) - slot; }
};

std::string said(const char* fault) { return fault == nullptr ? "" : fault; }

}  // namespace

TEST_CASE("the push of a call as QEMU 7.2 reports it passes") {
    const Guest guest;
    SelfTest test(guest.base());
    CHECK(said(test.call_begins()) == "");
    CHECK(!test.passed());
    CHECK(said(test.accessed(store | eight_bytes, guest.slot, return_address)) == "");
    CHECK(test.passed());
    CHECK(said(test.call_begins()) == "");
}

TEST_CASE("a call through memory loads its target before it pushes") {
    const Guest guest;
    SelfTest test(guest.base());
    test.call_begins();
    CHECK(said(test.accessed(load | eight_bytes, guest.slot + 8, return_address)) == "");
    CHECK(!test.passed());
    CHECK(said(test.accessed(store | eight_bytes, guest.slot, return_address)) == "");
    CHECK(test.passed());
}

TEST_CASE("no callback, or none that is a store, shows at the second call") {
    const Guest guest;
    SelfTest none(guest.base()), loads(guest.base());
    for (SelfTest* test : {&none, &loads}) CHECK(said(test->call_begins()) == "");
    CHECK(said(loads.accessed(load | eight_bytes, guest.slot, return_address)) == "");
    for (SelfTest* test : {&none, &loads}) {
        CHECK(said(test->call_begins()).find("not reported") != std::string::npos);
    }
}

TEST_CASE("other info bits, sizes and places are told") {
    const Guest guest;
    const auto fault = [&](qemu_plugin_meminfo_t info, std::uint64_t base, std::uint64_t slot) {
        SelfTest test(base);
        test.call_begins();
        const std::string text = said(test.accessed(info, slot, return_address));
        CHECK(!test.passed());
        return text;
    };
    CHECK(fault(eight_bytes, guest.base(), guest.slot).find("neither") != std::string::npos);
    CHECK(fault(store, guest.base(), guest.slot).find("another size") != std::string::npos);
    const std::string elsewhere = fault(store | eight_bytes, guest.base(), guest.slot + 8);
    CHECK(elsewhere.find("not where") != std::string::npos);
    CHECK(fault(store | eight_bytes, 0, 8) == elsewhere);  // not even readable
}
