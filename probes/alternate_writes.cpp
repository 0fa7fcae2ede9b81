#include "probes/alternate_writes.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "probes/clocks.hpp"
#include "probes/failure.hpp"
#include "probes/file_loop.hpp"
#include "probes/transfer_queue.hpp"

namespace pagelens::probes {

namespace {

constexpr unsigned most_looks = 1 << 14;  // some 10 us

bool move_to(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(core), &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

}  // namespace

std::vector<double> alternate_writes(int descriptor, std::size_t bytes,
                                     const std::vector<std::int64_t>& offsets, int other_core) {
    if (bytes == 0 || bytes > most_operation_bytes)
        throw std::invalid_argument("bytes: an operation has 1 B to 1 GiB");
    if (other_core < 0 || other_core >= CPU_SETSIZE)
        throw std::invalid_argument("other_core: processors have numbers from 0 to 1023");
    const Buffer first = buffer_of(bytes), second = buffer_of(bytes);
    const double clock_s = cpu_clock_seconds();
    std::vector<double> took(offsets.size());
    std::atomic<std::size_t> turn{0};
    std::atomic<int> error{0};
    const auto write_every_other = [&](std::size_t begin, const char* buffer) {
        for (std::size_t i = begin; i < offsets.size(); i += 2) {
            // The thread does not sleep: its wake-up would count as a part of the write.
            // After a while it lets other programs go first, because the other thread may wait,
            // too.
            for (unsigned looks = 1; turn.load(std::memory_order_acquire) != i && error == 0;
                 ++looks)
                if (looks % most_looks == 0) sched_yield();
            if (error != 0) return;
            const double before = seconds(CLOCK_THREAD_CPUTIME_ID);
            if (::pwrite(descriptor, buffer, bytes, offsets[i]) < 0) error = errno;
            took[i] = std::max(seconds(CLOCK_THREAD_CPUTIME_ID) - before - clock_s, 0.0);
            turn.store(i + 1, std::memory_order_release);
        }
    };
    std::thread other([&] {
        if (!move_to(other_core)) error = errno;
        write_every_other(1, second.get());
    });
    write_every_other(0, first.get());
    other.join();
    if (error != 0) throw Failure(error, "a write failed");
    if (!took.empty()) took.erase(took.begin());
    return took;
}

}  // namespace pagelens::probes
