// Finds how much memory this process may still take.
#pragma once

#include <cstddef>
#include <filesystem>

namespace pagelens::probes {

// Bytes that new mappings may take before the kernel has to swap or kill: the least of MemAvailable
// and of what each memory control group of this process, from its own to the root, has left (its
// limit less its usage; cache of files that were not used lately is not counted as used). Groups of
// version 2 are at `cgroups` or its folder `unified`, those of version 1 at its folder `memory`.
// What cannot be read is no limit.
std::size_t available_bytes(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace pagelens::probes
