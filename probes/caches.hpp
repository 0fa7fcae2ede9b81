// Sizes of this machine's caches, by sysfs.
#pragma once

#include <cstddef>
#include <span>

namespace pagelens::probes {

// Bytes of the last-level caches that the processors use, each counted once; 0 where the kernel
// does not show them.
std::size_t last_level_bytes(std::span<const int> cpus);

}  // namespace pagelens::probes
