// The kinds of pages that a mapping can be made of, and the pools of the large ones.
#pragma once

#include <cstddef>

namespace pagelens::probes {

enum class Pages {
    small,        // 4 KiB, and never more (MADV_NOHUGEPAGE)
    transparent,  // 2 MiB where the kernel finds them (MADV_HUGEPAGE), else 4 KiB
    large,        // 2 MiB of the pool of hugetlb
    huge          // 1 GiB of the pool of hugetlb
};

// The unit in which the kernel gives memory of this kind: 4 KiB, 2 MiB, 2 MiB, 1 GiB.
std::size_t unit_bytes(Pages pages);

inline bool from_pool(Pages pages) { return pages == Pages::large || pages == Pages::huge; }

// Pages of the pool that are neither used nor promised; 0 where the kernel has no such pool.
std::size_t free_in_pool(Pages pages);

// The limit of a mapping, which is half of the address space of a process.
inline constexpr std::size_t most_bytes = std::size_t{1} << 46;

// Anonymous private pages, mapped and not yet populated: `bytes` is rounded up to whole units, and
// pages out of a pool are promised. The address is a multiple of the unit, of 2 MiB at least, and
// 4 KiB on each side of memory out of no pool fault.
struct Mapping {
    std::byte* address;
    std::size_t bytes;
    std::byte* reserved;  // what munmap gives back: the pages and what lies beside them
    std::size_t reserved_bytes;
};
// Failure, with the remedy: not that many pages. std::invalid_argument: 0 or beyond most_bytes.
Mapping map_pages(std::size_t bytes, Pages pages);

// Has the kernel give frames to all pages of the range (whole pages), for the calling thread's NUMA
// node. The errno, or 0: a pool that is empty for this thread is an error here, not a signal later.
// ECANCELED: a stop was requested (probes/stop.hpp), and part of the pages have none.
int populate(std::byte* address, std::size_t bytes, Pages pages);

// Replaces MADV_POPULATE_WRITE on kernels before 5.14, by reading a zero into each page. The kernel
// writes it, and returns EFAULT where the program itself would get SIGBUS.
int write_to_each(std::byte* address, std::size_t bytes, Pages pages);

}  // namespace pagelens::probes
