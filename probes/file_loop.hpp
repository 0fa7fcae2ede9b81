// Operations on one file, as fast as a program can make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens::probes {

inline constexpr std::size_t most_operation_bytes = std::size_t{1} << 30;

struct FileLoopResult {
    double wall_s = 0;
    double queued_s = 0;      // of that, waiting for a processor that others had
    double cpu_s = 0;         // of the calling thread
    std::uint64_t bytes = 0;  // that were moved
};

// Reads, or writes, `bytes` at each of the offsets of an open file, in their order, from one buffer
// whose address is a multiple of 4096. Stops at the end of the file. Throws
// Failure where the system refuses.
FileLoopResult file_loop(int descriptor, bool write, std::size_t bytes,
                         const std::vector<std::int64_t>& offsets);

// How long one core takes to copy `bytes` from one buffer of that size to another, `count` times.
double copy_seconds(std::size_t bytes, std::size_t count);

}  // namespace pagelens::probes
