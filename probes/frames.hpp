// Reads what the kernel shows of the frames under a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens::probes {

// Frame of each 4 KiB page of [address, address + bytes) by /proc/self/pagemap, 0 for a page that
// is in no frame. Empty where the file cannot be read or shows no frame: that needs CAP_SYS_ADMIN.
std::vector<std::uint64_t> frames_of(std::uintptr_t address, std::size_t bytes);

// Bytes of the mapping at `address` in transparent huge pages, by /proc/self/smaps: 0 where it
// cannot be read. The kernel walks the page tables down to the mapping, a millisecond a GiB of
// small pages; unlike kpageflags, it shows this to every user. The mapping must have no neighbour
// of its own kind, for the kernel would make one of both.
std::size_t transparent_bytes(std::uintptr_t address, std::size_t bytes);

}  // namespace pagelens::probes
