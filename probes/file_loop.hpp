// Operations on one file, as fast as a program can make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pagelens::probes {

inline constexpr std::size_t most_operation_bytes = std::size_t{1} << 30;

struct FileLoopResult {
    double wall_s = 0;
    double queued_s = 0;              // of that, waiting for a processor that others had
    double cpu_s = 0;                 // of the calling thread
    std::uint64_t bytes = 0;          // that were moved
    std::vector<double> parts_cpu_s;  // of some operations each, which move `part_bytes` or more
};

// So much takes far longer than reading the clock.
inline constexpr std::size_t part_bytes = std::size_t{64} << 10;

// Reads, or writes, `bytes` at each of the offsets of an open file, in their order, from one buffer
// whose address is a multiple of 4096. Stops at the end of the file. Throws
// Failure where the system refuses.
FileLoopResult file_loop(int descriptor, bool write, std::size_t bytes,
                         const std::vector<std::int64_t>& offsets);

// Does the same with up to `depth` transfers in flight, and waits for the last ones. The file must
// be open with O_DIRECT: the kernel has no buffered transfers in flight.
FileLoopResult queued_loop(int descriptor, bool write, std::size_t bytes,
                           const std::vector<std::int64_t>& offsets, std::size_t depth);

// Whether an operation of a replay can be in flight with the ones before it.
enum class Flight : std::uint8_t { alone = 0, together = 1, last = 2 };  // last: wait for all

// The operations of a replay: all of one length.
struct FileOperations {
    std::span<const std::int32_t> descriptors;
    std::span<const std::int32_t> kinds;  // 0: read, 1: write, 2: fsync
    std::span<const std::int64_t> offsets;
    std::span<const std::uint64_t> bytes;
    std::span<const std::uint8_t> flights;  // Flight
};

// Makes operations one after the other, from one buffer. `copied`: each byte is first copied
// through another buffer, as a program does that collects small requests. Reads and writes that are
// not alone are in flight together, up to `depth` of them; with a depth of 1 none is. Throws
// Failure where the system refuses. A read beyond the end of a file is no error.
FileLoopResult replay_operations(const FileOperations& operations, bool copied, std::size_t depth);

// How long a transfer takes after other work of the program, and how long that work takes.
struct TransferAfterWork {
    double transfer_s = 0;
    double work_s = 0;
};

// Reads, or writes, `bytes` at each of the offsets. Before each transfer it touches every line of
// `work_bytes` of other memory, as a program does that computes. Returns the medians of all
// transfers and of all work, without the time of the clock. Throws Failure if the system refuses.
TransferAfterWork transfer_after_work(int descriptor, bool write, std::size_t bytes,
                                      std::size_t work_bytes,
                                      const std::vector<std::int64_t>& offsets);

// Returns the processor seconds of a system call that does nothing, over `count` of them.
double call_seconds(int descriptor, std::size_t count);

// Returns how long one core takes to copy `bytes` from one buffer of that size to another, `count`
// times.
double copy_seconds(std::size_t bytes, std::size_t count);

}  // namespace pagelens::probes
