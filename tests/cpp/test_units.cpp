#include <doctest/doctest.h>

#include <concepts>
#include <initializer_list>

#include "core/address/units.hpp"

using namespace pagelens;

// The point of the strong types: each of these mixtures is a compile error.
static_assert(!std::convertible_to<std::uint64_t, VirtualPage>);
static_assert(!std::convertible_to<VirtualLine, VirtualPage>);
static_assert(!std::equality_comparable_with<VirtualPage, VirtualLine>);

TEST_CASE("an address, its line and its page agree at the edges of a line and of a page") {
    CHECK(line_of(VirtualAddress(63)) == VirtualLine(0));
    CHECK(line_of(VirtualAddress(64)) == VirtualLine(1));
    CHECK(page_of(VirtualAddress(4095)) == VirtualPage(0));
    CHECK(page_of(VirtualAddress(4096)) == VirtualPage(1));
    for (std::uint64_t address : {0ull, 4095ull, 4096ull, 0x7fff'ffff'ffffull}) {
        const VirtualAddress a(address);
        CHECK(page_of(line_of(a)) == page_of(a));
        CHECK(page_of(a).raw() * page_bytes + line_in_page(line_of(a)) * line_bytes ==
              address / line_bytes * line_bytes);
    }
}
