// Pages that got frames are found, and no others.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/address/units.hpp"
#include "tracer/touched_pages.hpp"

using namespace pagelens;

TEST_CASE("touched pages: those that were written, whatever may be done with the others") {
    constexpr std::uint64_t count = 40;
    auto* const memory = static_cast<volatile char*>(::mmap(
        nullptr, count * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE((memory != MAP_FAILED));
    ::madvise(const_cast<char*>(memory), count * page_bytes, MADV_NOHUGEPAGE);
    for (const std::uint64_t page : {3, 4, 5, 20, 39}) memory[page * page_bytes] = 1;
    const auto begin = reinterpret_cast<std::uint64_t>(memory);
    using Runs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
    const auto runs = [&](std::uint64_t from, std::uint64_t to, bool (*owns)(std::uint64_t)) {
        Runs found;
        TouchedPages().scan(from, to, owns, [&](std::uint64_t page, std::uint64_t pages) {
            found.emplace_back(page - begin / page_bytes, pages);
        });
        return found;
    };
    const auto nobody = [](std::uint64_t) { return false; };
    CHECK(runs(begin, begin + count * page_bytes, nobody) == Runs{{3, 3}, {20, 1}, {39, 1}});
    CHECK(runs(begin + 4 * page_bytes, begin + 20 * page_bytes, nobody) == Runs{{4, 2}});
    CHECK(runs(begin, begin + count * page_bytes, [](std::uint64_t) { return true; }).empty());
    ::munmap(const_cast<char*>(memory), count * page_bytes);
}
