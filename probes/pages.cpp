#include "probes/pages.hpp"

#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "probes/available.hpp"
#include "probes/failure.hpp"
#include "probes/stop.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // linux/mman.h from 5.14 on
#endif

namespace pagelens::probes {
namespace {

constexpr std::size_t small_bytes = 4096, large_bytes = std::size_t{2} << 20,
                      huge_bytes = std::size_t{1} << 30;
constexpr std::size_t populated_at_once = huge_bytes;  // then it is asked whether to stop

std::string pool_of(Pages pages) {
    return "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(unit_bytes(pages) / 1024) + "kB/";
}

[[noreturn]] void refuse_pool(std::size_t units, Pages pages, int error) {
    const std::size_t free = free_in_pool(pages);
    std::size_t all = 0;
    std::ifstream(pool_of(pages) + "nr_hugepages") >> all;
    throw Failure(error, "pages: needs " + std::to_string(units) + " of " +
                             (pages == Pages::large ? "2 MiB" : "1 GiB") + " out of the pool, " +
                             std::to_string(free) + " are free; as root: echo " +
                             std::to_string(all + units - std::min(units, free)) + " > " +
                             pool_of(pages) + "nr_hugepages, or take transparent ones");
}

[[noreturn]] void refuse_memory(std::size_t bytes, int error) {
    throw Failure(error, "bytes: " + std::to_string(bytes) + "; " +
                             std::to_string(available_bytes()) + " are available");
}

Mapping map_from_pool(std::size_t bytes, Pages pages) {
    const int size = (pages == Pages::large ? 21 : 30) << MAP_HUGE_SHIFT;
    void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0);
    if (address == MAP_FAILED) refuse_pool(bytes / unit_bytes(pages), pages, errno);
    auto* const first = static_cast<std::byte*>(address);
    return {first, bytes, first, bytes};
}

Mapping map_anonymous(std::size_t bytes, Pages pages) {
    if (bytes > available_bytes()) refuse_memory(bytes, ENOMEM);
    const std::size_t around = 2 * large_bytes;
    void* const reserved = mmap(nullptr, bytes + around, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) refuse_memory(bytes, errno);
    auto* const first = static_cast<std::byte*>(reserved);
    const auto beyond = reinterpret_cast<std::uintptr_t>(first) % large_bytes;
    std::byte* const address = first + (large_bytes - beyond);
    const int advice = pages == Pages::small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
    // A kernel without transparent pages knows no advice about them (EINVAL).
    const bool advised = madvise(address, bytes, advice) == 0 || pages == Pages::small;
    if (!advised || mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) {
        const int error = errno;
        munmap(reserved, bytes + around);
        if (!advised) throw Failure(error, "pages: this kernel has no transparent huge pages");
        refuse_memory(bytes, error);
    }
    return {address, bytes, first, bytes + around};
}

}  // namespace

std::size_t unit_bytes(Pages pages) {
    switch (pages) {
        case Pages::small:
            return small_bytes;
        case Pages::transparent:
        case Pages::large:
            return large_bytes;
        case Pages::huge:
            return huge_bytes;
    }
    throw std::invalid_argument("pages: unknown kind");
}

std::size_t free_in_pool(Pages pages) {
    std::size_t free = 0, promised = 0;
    std::ifstream(pool_of(pages) + "free_hugepages") >> free;
    std::ifstream(pool_of(pages) + "resv_hugepages") >> promised;
    return free > promised ? free - promised : 0;
}

Mapping map_pages(std::size_t bytes, Pages pages) {
    const std::size_t unit = unit_bytes(pages);
    if (bytes == 0 || bytes > most_bytes) {
        throw std::invalid_argument("bytes: " + std::to_string(bytes) + "; from 1 to " +
                                    std::to_string(most_bytes));
    }
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    return from_pool(pages) ? map_from_pool(whole, pages) : map_anonymous(whole, pages);
}

int populate(std::byte* address, std::size_t bytes, Pages pages) {
    for (std::size_t at = 0; at < bytes; at += populated_at_once) {
        if (stop_requested()) return ECANCELED;
        const std::size_t part = std::min(populated_at_once, bytes - at);
        if (madvise(address + at, part, MADV_POPULATE_WRITE) == 0) continue;
        const int error = errno == EINVAL ? write_to_each(address + at, part, pages) : errno;
        if (error != 0) return error;
    }
    return 0;
}

int write_to_each(std::byte* address, std::size_t bytes, Pages pages) {
    const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zeros < 0) return errno;
    const std::size_t page = from_pool(pages) ? unit_bytes(pages) : small_bytes;
    int error = 0;
    for (std::size_t at = 0; error == 0 && at < bytes; at += page) {
        const ssize_t got = read(zeros, address + at, 1);
        if (got != 1) error = got < 0 ? errno : EIO;
    }
    close(zeros);
    return error;
}

}  // namespace pagelens::probes
