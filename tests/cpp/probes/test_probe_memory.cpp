#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <vector>

#include "probes/ballast.hpp"
#include "probes/failure.hpp"
#include "probes/memory.hpp"
#include "tests/cpp/probes/usable_cpus.hpp"

using namespace pagelens::probes;

namespace {

constexpr std::size_t one_array[] = {0};
constexpr std::size_t mib = 1 << 20;

// The pages of a mapping that have frames, by the kernel's own count.
std::size_t resident(const Memory& memory) {
    std::size_t pages = 0, resident = 0;
    const auto frames = memory.frames();
    for (const std::uint64_t frame : frames) {
        ++pages;
        resident += frame != 0;
    }
    CHECK((frames.empty() || pages == memory.bytes() / 4096));
    return frames.empty() ? memory.bytes() / 4096 : resident;
}

}  // namespace

TEST_CASE("memory is whole pages, aligned, zero and in frames at once") {
    const auto cpus = usable_cpus(2);
    const std::size_t arrays[] = {0, 100000, 100001, 3 * mib};
    const Memory memory(5 * mib + 1, Pages::small, cpus, arrays);
    CHECK(memory.bytes() == 5 * mib + 4096);
    CHECK(memory.address() % (2 * mib) == 0);
    CHECK(resident(memory) == memory.bytes() / 4096);
    CHECK(memory.large_share() == 0);
    const Memory::Use use(memory);
    const auto* const bytes = use.at<unsigned char>(0, memory.bytes(), "all");
    CHECK(std::count(bytes, bytes + memory.bytes(), 0) ==
          static_cast<std::ptrdiff_t>(memory.bytes()));
}

TEST_CASE("transparent pages come in units of 2 MiB") {
    const auto cpus = usable_cpus(1);
    const Memory memory(3 * mib, Pages::transparent, cpus, one_array);
    CHECK(memory.bytes() == 4 * mib);
    const double share = memory.large_share();  // what the kernel could find
    CHECK((share == 0 || share == 0.5 || share == 1));
}

TEST_CASE("a kernel gets no byte outside of its memory, nor of memory that is gone") {
    const auto cpus = usable_cpus(1);
    Memory memory(8192, Pages::small, cpus, one_array);
    {
        const Memory::Use use(memory);
        CHECK_NOTHROW(use.at<double>(0, 1024, "all"));
        CHECK_NOTHROW(use.at<double>(8192, 0, "nothing"));
        CHECK_THROWS_AS(use.at<double>(0, 1025, "more"), std::invalid_argument);
        CHECK_THROWS_AS(use.at<double>(8, 1024, "more"), std::invalid_argument);
        CHECK_THROWS_AS(use.at<double>(8200, 0, "beyond"), std::invalid_argument);
        CHECK_THROWS_AS(use.at<double>(4, 1, "askew"), std::invalid_argument);
        CHECK_THROWS_AS(use.at<double>(8, SIZE_MAX / 8, "wrapping"), std::invalid_argument);
    }
    memory.release();
    memory.release();
    CHECK_THROWS_AS(Memory::Use{memory}, std::invalid_argument);
    CHECK_THROWS_AS((void)memory.frames(), std::invalid_argument);
}

TEST_CASE("memory that cannot be had is refused before anything is populated") {
    const auto cpus = usable_cpus(1);
    const auto with = [&](std::size_t bytes, Pages pages, std::vector<std::size_t> arrays) {
        const Memory memory(bytes, pages, cpus, arrays);
    };
    CHECK_THROWS_AS(with(0, Pages::small, {0}), std::invalid_argument);
    CHECK_THROWS_AS(with(SIZE_MAX, Pages::small, {0}), std::invalid_argument);
    CHECK_THROWS_AS(with(8192, Pages::small, {}), std::invalid_argument);
    CHECK_THROWS_AS(with(8192, Pages::small, {8}), std::invalid_argument);
    CHECK_THROWS_AS(with(8192, Pages::small, {0, 8, 8}), std::invalid_argument);
    CHECK_THROWS_AS(with(8192, Pages::small, {0, 8192}), std::invalid_argument);
    CHECK_THROWS_AS(with(std::size_t{1} << 45, Pages::small, {0}), Failure);
}

TEST_CASE("a pool without pages says so, and how to get some") {
    const auto cpus = usable_cpus(1);
    for (const Pages pages : {Pages::large, Pages::huge}) {
        const std::size_t more = free_in_pool(pages) + 1;
        try {
            const Memory memory(more * unit_bytes(pages), pages, cpus, one_array);
            FAIL("pages out of nowhere");
        } catch (const Failure& failure) {
            CHECK(failure.error() != 0);
            CHECK(std::string(failure.what()).find("nr_hugepages") != std::string::npos);
        }
    }
}

TEST_CASE("a kernel that cannot populate at once does it page by page, or says that it cannot") {
    const Mapping mapping = map_pages(mib, Pages::small);
    const auto populated = [&] {
        std::vector<unsigned char> resident(mapping.bytes / 4096);
        REQUIRE(mincore(mapping.address, mapping.bytes, resident.data()) == 0);
        return std::count_if(resident.begin(), resident.end(), [](auto r) { return (r & 1) != 0; });
    };
    CHECK(populated() == 0);
    CHECK(write_to_each(mapping.address, mapping.bytes / 2, Pages::small) == 0);
    CHECK(populated() == 128);
    // As of a pool that is empty: the page after the memory faults.
    CHECK(write_to_each(mapping.address + mapping.bytes - 4096, 8192, Pages::small) == EFAULT);
    CHECK(populated() == 129);
    munmap(mapping.reserved, mapping.reserved_bytes);
}

TEST_CASE("a ballast holds the share that it is to keep, and gives it back") {
    const auto cpus = usable_cpus(1);
    Ballast none(16 * mib, Pages::small, cpus, 0, 1);
    CHECK(none.held() == 0);
    Ballast half(16 * mib, Pages::small, cpus, 0.5, 1);
    CHECK(half.held() > 4 * mib);  // of about 16 pieces of a MiB at most, of different sizes
    CHECK(half.held() < 12 * mib);
    half.release();
    CHECK(half.held() == 0);
    half.release();
    CHECK_THROWS_AS(Ballast(0, Pages::small, cpus, 0, 1), std::invalid_argument);
    CHECK_THROWS_AS(Ballast(mib, Pages::small, cpus, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(Ballast(mib, Pages::small, cpus, -0.1, 1), std::invalid_argument);
}

TEST_CASE("a ballast of a pool without free pages is empty") {
    const auto cpus = usable_cpus(1);
    for (const Pages pages : {Pages::large, Pages::huge}) {
        if (free_in_pool(pages) != 0) continue;
        Ballast none(4 * mib, pages, cpus, 0.5, 1);
        CHECK(none.held() == 0);
        none.release();
        CHECK_THROWS_AS(Ballast(mib, pages, cpus, 1, 1), std::invalid_argument);
    }
}
