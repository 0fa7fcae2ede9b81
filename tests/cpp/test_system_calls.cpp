// What system calls do to pages, as events.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <vector>

#include "tests/cpp/temporary_file.hpp"
#include "tracer/system_calls.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t page = 4096;

struct Seen {
    EventKind kind;
    std::uint64_t first, count, extra;
    bool operator==(const Seen&) const = default;
};

Seen seen(const Event& event) { return {event.kind, event.address, event.count, event.extra}; }

struct Kernel {
    AddressSpace space{.guest_base = 0};

    std::vector<Seen> returned(std::int64_t number, std::initializer_list<std::uint64_t> arguments,
                               std::int64_t result) {
        SystemCall call{number, {}};
        std::copy(arguments.begin(), arguments.end(), call.argument);
        std::vector<Seen> events;
        page_events(call, result, space,
                    [&](const Event& event) { events.push_back(seen(event)); });
        return events;
    }

    std::vector<Seen> called(std::int64_t number, std::initializer_list<std::uint64_t> arguments) {
        SystemCall call{number, {}};
        std::copy(arguments.begin(), arguments.end(), call.argument);
        const auto event = unmapped_by(call, space);
        return event ? std::vector{seen(*event)} : std::vector<Seen>{};
    }
};

using Events = std::vector<Seen>;
std::uint64_t guest(const void* host) { return reinterpret_cast<std::uint64_t>(host); }

}  // namespace

namespace doctest {
template <>
struct StringMaker<Events> {
    static String convert(const Events& events) {
        String text = "[";
        for (const Seen& e : events) {
            text += toString(static_cast<int>(e.kind)) + ":" + toString(e.first) + "+" +
                    toString(e.count) + "/" + toString(e.extra) + " ";
        }
        return text + "]";
    }
};
}  // namespace doctest

TEST_CASE("unmapping takes whole pages, also those of a part") {
    Kernel kernel;
    for (const std::uint64_t bytes : {2 * page, page + 1})
        CHECK(kernel.called(nr::munmap, {5 * page, bytes}) == Events{{EventKind::unmap, 5, 2, 0}});
}

TEST_CASE("unmapping is told before the call alone, and not if the call is wrong") {
    Kernel kernel;
    CHECK(kernel.returned(nr::munmap, {5 * page, page}, 0).empty());
    CHECK(kernel.called(nr::munmap, {5 * page, 0}).empty());
    CHECK(kernel.called(nr::munmap, {5 * page + 1, page}).empty());
    CHECK(kernel.called(nr::mmap, {5 * page, page}).empty());
}

TEST_CASE("a call that failed did nothing") {
    Kernel kernel;
    CHECK(kernel.returned(nr::munmap, {5 * page, page}, -EINVAL).empty());
    CHECK(kernel.returned(nr::read, {0, 5 * page, 100}, -EINTR).empty());
    CHECK(kernel.returned(nr::madvise, {5 * page, page, MADV_DONTNEED}, -ENOMEM).empty());
}

TEST_CASE("a mapping at a fixed place ends what was there, another one nothing") {
    Kernel kernel;
    constexpr std::uint64_t anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    CHECK(kernel.returned(nr::mmap, {7 * page, 3 * page, 3, anonymous | MAP_FIXED}, 7 * page) ==
          Events{{EventKind::unmap, 7, 3, 0}});
    CHECK(kernel.returned(nr::mmap, {0, 3 * page, 3, anonymous}, 7 * page).empty());
}

TEST_CASE("a mapping of a file shows the same pages of the page cache by every name") {
    const TemporaryFile file;
    std::ofstream(file.path) << "some";
    const int first = open(file.path.c_str(), O_RDONLY), second = open(file.path.c_str(), O_RDWR);
    const auto shown = [&](Kernel& kernel, int descriptor, std::uint64_t offset) {
        const auto of = static_cast<std::uint64_t>(descriptor);
        return kernel.returned(nr::mmap, {0, 3 * page, 1, MAP_PRIVATE, of, offset}, 7 * page);
    };
    Kernel kernel;
    const std::uint64_t begin = shown(kernel, first, 0).at(0).extra;
    CHECK(shown(kernel, second, 2 * page) == Events{{EventKind::map_file, 7, 3, begin + 2}});
    Events present;
    present_files(kernel.space, {{9 * page, 11 * page, page, file.path}, {0, page, 0, "/dev/null"}},
                  [&](const Event& event) {
                      present.push_back({event.kind, event.address, event.count, event.extra});
                  });
    CHECK(present == Events{{EventKind::map_file, 9, 2, begin + 1}});
    const TemporaryFile other;
    std::ofstream(other.path) << "more";
    const int third = open(other.path.c_str(), O_RDONLY);
    CHECK(shown(kernel, third, 0).at(0).extra != begin);
    const auto mapped_shared = static_cast<std::uint64_t>(second);
    CHECK(kernel.returned(nr::mmap, {0, page, 3, MAP_SHARED, mapped_shared, page}, 7 * page) ==
          Events{{EventKind::map_file, 7, 1, (begin + 1) | shared_mapping}});
    const auto known = kernel.space.page_cache.take_new();
    REQUIRE(known.size() == 2);
    CHECK((known[0].number << file_bits) == begin);
    CHECK(known[0].inode != known[1].inode);
    CHECK(kernel.space.page_cache.take_new().empty());
    CHECK(parse_mapping("1000-2000 rw-s 00000000 00:01 12 /dev/shm/segment")->shared);
    CHECK_FALSE(parse_mapping("1000-2000 rw-p 00000000 00:01 12 /some/file")->shared);
    // A file without a name, as of a shared mapping of no file.
    const auto nameless = *parse_mapping("1000-2000 rw-s 00002000 00:0a 12 /none (deleted)");
    CHECK(nameless.device == makedev(0, 10));
    CHECK(nameless.inode == 12);
    CHECK(*kernel.space.page_cache.of_mapping(nameless) % (std::uint64_t{1} << file_bits) == 2);
    for (const int descriptor : {first, second, third}) close(descriptor);
    CHECK(shown(kernel, third, 0).empty());  // it was closed since
}

TEST_CASE("the program break gives pages back when it falls, before the call alone") {
    Kernel kernel;
    CHECK(kernel.called(nr::brk, {90 * page}).empty());        // not known yet
    CHECK(kernel.returned(nr::brk, {0}, 100 * page).empty());  // asked where it is
    CHECK(kernel.called(nr::brk, {110 * page}).empty());
    CHECK(kernel.returned(nr::brk, {110 * page}, 110 * page).empty());
    CHECK(kernel.called(nr::brk, {103 * page + 1}) ==
          Events{{EventKind::unmap, 104, 6, 0}});  // the page that it is in stays
    CHECK(kernel.returned(nr::brk, {103 * page + 1}, 103 * page + 1).empty());
    CHECK(kernel.space.program_break == 103 * page + 1);
    CHECK(kernel.called(nr::brk, {99 * page}).empty());  // the kernel refuses it
    CHECK(kernel.returned(nr::brk, {99 * page}, 103 * page + 1).empty());
    CHECK(kernel.space.program_break == 103 * page + 1);
}

TEST_CASE("a break that another thread raised meanwhile stays") {
    Kernel kernel;
    kernel.returned(nr::brk, {0}, 100 * page);
    kernel.returned(nr::brk, {110 * page}, 110 * page);
    CHECK(!kernel.called(nr::brk, {105 * page}).empty());
    CHECK(kernel.returned(nr::brk, {120 * page}, 120 * page).empty());  // the other thread's
    CHECK(kernel.returned(nr::brk, {105 * page}, 105 * page).empty());
    CHECK(kernel.space.program_break == 120 * page);
}

TEST_CASE("mremap cuts, moves, or both") {
    Kernel kernel;
    CHECK(kernel.returned(nr::mremap, {10 * page, 4 * page, 8 * page}, 10 * page).empty());
    CHECK(kernel.returned(nr::mremap, {10 * page, 4 * page, page}, 10 * page) ==
          Events{{EventKind::unmap, 11, 3, 0}});
    CHECK(kernel.returned(nr::mremap, {10 * page, 4 * page, 8 * page}, 50 * page) ==
          Events{{EventKind::remap, 10, 4, 50}});
    CHECK(kernel.returned(nr::mremap, {10 * page, 4 * page, 2 * page}, 50 * page) ==
          Events{{EventKind::unmap, 12, 2, 0}, {EventKind::remap, 10, 2, 50}});
}

TEST_CASE("advice that gives pages back, and advice that does not") {
    Kernel kernel;
    for (const int advice : {MADV_DONTNEED, MADV_FREE, MADV_REMOVE}) {
        CHECK(kernel.returned(nr::madvise, {9 * page, page, std::uint64_t(advice)}, 0) ==
              Events{{EventKind::discard, 9, 1, 0}});
    }
    CHECK(kernel.returned(nr::madvise, {9 * page, 2 * page, MADV_HUGEPAGE}, 0) ==
          Events{{EventKind::advise, 9, 2, 1}});
    CHECK(kernel.returned(nr::madvise, {9 * page, page, MADV_NOHUGEPAGE}, 0) ==
          Events{{EventKind::advise, 9, 1, 0}});
    CHECK(kernel.returned(nr::madvise, {9 * page, page, MADV_WILLNEED}, 0).empty());
}

TEST_CASE("memory keeps its advice when it grows or moves") {
    Kernel kernel;
    kernel.returned(nr::madvise, {10 * page, 4 * page, MADV_HUGEPAGE}, 0);
    CHECK(kernel.returned(nr::mremap, {10 * page, 4 * page, 8 * page}, 10 * page) ==
          Events{{EventKind::advise, 10, 8, 1}});
    CHECK(kernel.returned(nr::mremap, {10 * page, 8 * page, 9 * page}, 50 * page) ==
          Events{{EventKind::remap, 10, 8, 50}, {EventKind::advise, 50, 9, 1}});
    kernel.returned(nr::mmap, {0, 9 * page, 0, MAP_ANONYMOUS}, 50 * page);
    CHECK(kernel.returned(nr::mremap, {50 * page, 9 * page, 10 * page}, 50 * page).empty());
}

TEST_CASE("the kernel writes what was read, and no more of the buffer") {
    Kernel kernel;
    CHECK(kernel.returned(nr::read, {0, 5 * page + 10, 9 * page}, page) ==
          Events{{EventKind::page_write, 5, 2, 0}});
    CHECK(kernel.returned(nr::pread64, {0, 5 * page, 9 * page, 0}, 1) ==
          Events{{EventKind::page_write, 5, 1, 0}});
    CHECK(kernel.returned(nr::read, {0, 5 * page, 100}, 0).empty());  // end of file
}

TEST_CASE("buffers of readv and recvmsg are filled in their order, found in guest memory") {
    const auto at = [](std::uint64_t address) { return reinterpret_cast<void*>(address); };
    iovec buffers[] = {{at(3 * page), 2 * page}, {at(90 * page), 0}, {at(20 * page), 4 * page}};
    Kernel kernel;
    kernel.space.guest_base = 1 << 20;  // the arrays lie where the guest sees them 1 MiB lower
    const std::uint64_t array = guest(buffers) - kernel.space.guest_base;
    const Events both{{EventKind::page_write, 3, 2, 0}, {EventKind::page_write, 20, 1, 0}};
    CHECK(kernel.returned(nr::readv, {0, array, 3}, 2 * page + 5) == both);
    CHECK(kernel.returned(nr::readv, {0, array, 3}, page) ==
          Events{{EventKind::page_write, 3, 1, 0}});

    msghdr message{};
    message.msg_iov = reinterpret_cast<iovec*>(array);
    message.msg_iovlen = 3;
    CHECK(kernel.returned(nr::recvmsg, {0, guest(&message) - kernel.space.guest_base},
                          2 * page + 5) == both);
}

TEST_CASE("a call that moves no pages") {
    Kernel kernel;
    CHECK(kernel.returned(nr::futex, {5 * page, 1}, 0).empty());
}
