#include "probes/file_loop.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "probes/clocks.hpp"
#include "probes/failure.hpp"
#include "probes/transfer_queue.hpp"

namespace pagelens::probes {

namespace {

// Seconds that the calling thread has waited for a processor that others had; 0 where the kernel
// does not say.
double queued_seconds() {
    std::ifstream file("/proc/thread-self/schedstat");
    double run_ns = 0, queued_ns = 0;
    return file >> run_ns >> queued_ns ? 1e-9 * queued_ns : 0;
}

// The times of a thread at the moment at which this is made.
struct Clocks {
    double queued = queued_seconds();
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);

    [[nodiscard]] FileLoopResult since(std::uint64_t bytes) const {
        FileLoopResult result;
        result.cpu_s = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        result.wall_s = seconds(CLOCK_MONOTONIC) - wall;
        result.queued_s = queued_seconds() - queued;
        result.bytes = bytes;
        return result;
    }
};

}  // namespace

FileLoopResult file_loop(int descriptor, bool write, std::size_t bytes,
                         const std::vector<std::int64_t>& offsets) {
    if (bytes == 0 || bytes > most_operation_bytes)
        throw std::invalid_argument("bytes: an operation has 1 B to 1 GiB");
    const Buffer buffer = buffer_of(bytes);
    const double clock_s = cpu_clock_seconds();
    const std::size_t part = std::max<std::size_t>(1, part_bytes / bytes);
    std::vector<double> parts;
    parts.reserve(offsets.size() / part);
    std::uint64_t all_moved = 0;
    std::size_t done = 0;
    const Clocks clocks;
    double last = clocks.cpu;
    for (const std::int64_t offset : offsets) {
        const ssize_t moved = write ? ::pwrite(descriptor, buffer.get(), bytes, offset)
                                    : ::pread(descriptor, buffer.get(), bytes, offset);
        if (moved < 0) throw Failure(errno, write ? "a write failed" : "a read failed");
        if (moved == 0) break;
        all_moved += static_cast<std::uint64_t>(moved);
        if (++done % part == 0) {
            const double now = seconds(CLOCK_THREAD_CPUTIME_ID);
            parts.push_back(std::max(now - last - clock_s, 0.0));
            last = now;
        }
    }
    FileLoopResult result = clocks.since(all_moved);
    const double clocks_s = clock_s * static_cast<double>(parts.size());
    result.cpu_s = std::max(result.cpu_s - clocks_s, 0.0);
    result.wall_s = std::max(result.wall_s - clocks_s, 0.0);
    result.parts_cpu_s = std::move(parts);
    return result;
}

FileLoopResult queued_loop(int descriptor, bool write, std::size_t bytes,
                           const std::vector<std::int64_t>& offsets, std::size_t depth) {
    if (bytes == 0 || bytes > most_operation_bytes)
        throw std::invalid_argument("bytes: an operation has 1 B to 1 GiB");
    TransferQueue queue(depth, bytes);
    const Clocks clocks;
    for (const std::int64_t offset : offsets) queue.submit(descriptor, write, offset, bytes);
    queue.wait_for_all();
    return clocks.since(queue.moved());
}

FileLoopResult replay_operations(const FileOperations& operations, bool copied, std::size_t depth) {
    const auto& [descriptors, kinds, offsets, bytes, flights] = operations;
    const std::size_t count = descriptors.size();
    if (kinds.size() != count || offsets.size() != count || bytes.size() != count ||
        flights.size() != count)
        throw std::invalid_argument("the arrays of operations differ in their lengths");
    const std::uint64_t most = count == 0 ? 1 : std::max<std::uint64_t>(1, std::ranges::max(bytes));
    if (most > most_operation_bytes)
        throw std::invalid_argument("bytes: an operation has at most 1 GiB");
    const Buffer buffer = buffer_of(most), second = buffer_of(copied ? most : 1);
    std::optional<TransferQueue> queue;
    if (depth > 1) queue.emplace(depth, most);
    std::uint64_t all_moved = 0;
    const Clocks clocks;
    for (std::size_t i = 0; i < count; ++i) {
        const auto flight = static_cast<Flight>(flights[i]);
        if (queue && flight != Flight::alone && kinds[i] <= 1) {
            queue->submit(descriptors[i], kinds[i] == 1, offsets[i], bytes[i]);
            if (flight == Flight::last) queue->wait_for_all();
            continue;
        }
        ssize_t moved = 0;
        if (copied && kinds[i] == 1) std::memcpy(buffer.get(), second.get(), bytes[i]);
        if (kinds[i] == 0) moved = ::pread(descriptors[i], buffer.get(), bytes[i], offsets[i]);
        if (kinds[i] == 1) moved = ::pwrite(descriptors[i], buffer.get(), bytes[i], offsets[i]);
        if (kinds[i] == 2) moved = ::fsync(descriptors[i]);
        if (moved < 0) throw Failure(errno, "an operation of the replay failed");
        if (copied && kinds[i] == 0)
            std::memcpy(second.get(), buffer.get(), static_cast<std::size_t>(moved));
        all_moved += static_cast<std::uint64_t>(moved);
    }
    if (queue) queue->wait_for_all();
    return clocks.since(all_moved + (queue ? queue->moved() : 0));
}

TransferAfterWork transfer_after_work(int descriptor, bool write, std::size_t bytes,
                                      std::size_t work_bytes,
                                      const std::vector<std::int64_t>& offsets) {
    constexpr std::size_t line_bytes = 64, touched_bytes = std::size_t{64} << 20;
    if (bytes == 0 || bytes > most_operation_bytes || work_bytes > touched_bytes)
        throw std::invalid_argument("bytes: a transfer has 1 B to 1 GiB, and work at most 64 MiB");
    const Buffer buffer = buffer_of(bytes), others = buffer_of(touched_bytes);
    std::vector<double> transfers, works, clocks;
    std::size_t at = 0;
    for (const std::int64_t offset : offsets) {
        const double begin = seconds(CLOCK_MONOTONIC), again = seconds(CLOCK_MONOTONIC);
        for (std::size_t done = 0; done < work_bytes; done += line_bytes) {
            others.get()[at] = static_cast<char>(others.get()[at] + 1);
            at = (at + line_bytes) % touched_bytes;
        }
        __asm__ volatile("" : : "r"(others.get()) : "memory");  // the work stays here
        const double worked = seconds(CLOCK_MONOTONIC);
        const ssize_t moved = write ? ::pwrite(descriptor, buffer.get(), bytes, offset)
                                    : ::pread(descriptor, buffer.get(), bytes, offset);
        if (moved < 0) throw Failure(errno, write ? "a write failed" : "a read failed");
        transfers.push_back(seconds(CLOCK_MONOTONIC) - worked);
        works.push_back(worked - again);
        clocks.push_back(again - begin);
    }
    const auto median = [](std::vector<double>& of) {
        if (of.empty()) return 0.0;
        const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
        std::ranges::nth_element(of, middle);
        return *middle;
    };
    const double clock = median(clocks);
    return {std::max(median(transfers) - clock, 0.0), std::max(median(works) - clock, 0.0)};
}

double call_seconds(int descriptor, std::size_t count) {
    const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (std::size_t i = 0; i < count; ++i)
        if (::lseek(descriptor, 0, SEEK_CUR) < 0) throw Failure(errno, "lseek failed");
    return (seconds(CLOCK_THREAD_CPUTIME_ID) - begin) /
           static_cast<double>(std::max(count, std::size_t{1}));
}

double copy_seconds(std::size_t bytes, std::size_t count) {
    if (bytes == 0 || bytes > most_operation_bytes)
        throw std::invalid_argument("bytes: a copy has 1 B to 1 GiB");
    const Buffer from = buffer_of(bytes), to = buffer_of(bytes);
    const double begin = seconds(CLOCK_MONOTONIC);
    for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to.get(), from.get(), bytes);
        // The copy counts as used, so that the compiler leaves it in.
        __asm__ volatile("" : : "r"(to.get()) : "memory");
    }
    return seconds(CLOCK_MONOTONIC) - begin;
}

}  // namespace pagelens::probes
