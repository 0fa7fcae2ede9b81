// Threads pinned one to a processor, which begin together and whose work is timed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace pagelens::probes {

// The meeting point of all threads of a team. Threads wait by spinning, so that they leave it
// together.
class Barrier {
  public:
    explicit Barrier(unsigned threads) : threads_(threads) {}
    void wait();

  private:
    unsigned threads_;
    alignas(64) std::atomic<unsigned> arrived_{0};
    alignas(64) std::atomic<unsigned> generation_{0};
};

struct Member {
    std::size_t index;  // of the thread, below count
    std::size_t count;
    Barrier& barrier;

    // This member's part of n things in whole units (the last has what remains): [first, last).
    struct Part {
        std::size_t first, last;
    };
    [[nodiscard]] Part part_of(std::size_t n, std::size_t unit) const;
};

// Calls work(member) in as many threads as there are processors, each pinned to its own. The
// calling thread is the first of them, and gets its former affinity back. `work` must not throw.
// std::invalid_argument: no processor, one that is named twice, or one that this thread may not
// use. Failure: the system gives fewer threads.
void run_pinned(std::span<const int> cpus, const std::function<void(const Member&)>& work);

// Keeps the calling thread, and threads that it begins meanwhile, on these processors.
// Errors: as run_pinned.
class Confined {
  public:
    explicit Confined(std::span<const int> cpus);
    ~Confined();
    Confined(const Confined&) = delete;
    Confined& operator=(const Confined&) = delete;

  private:
    std::unique_ptr<class CpuSet> before_;
};

// When each thread began and ended each repetition.
class Times {
  public:
    Times(std::size_t threads, std::size_t repeats)
        : threads_(threads), repeats_(repeats), stamps_(threads * repeats) {}

    void set(std::size_t thread, std::size_t repeat, std::int64_t begin, std::int64_t end) {
        stamps_[thread * repeats_ + repeat] = {begin, end};
    }
    // Seconds of each repetition, from the first begin to the last end: those of the slowest
    // thread.
    [[nodiscard]] std::vector<double> slowest() const;
    // Seconds of each repetition by each thread: [repeat][thread].
    [[nodiscard]] std::vector<double> each() const;

  private:
    struct Stamps {
        std::int64_t begin = 0, end = 0;
    };
    std::size_t threads_, repeats_;
    std::vector<Stamps> stamps_;  // [thread][repeat]: threads write to lines of their own
};

// Repeats work(member) in pinned threads; before each repetition all threads meet.
// std::invalid_argument as run_pinned, and where repeats is 0. Stopped (probes/stop.hpp): soon
// after it was asked for, between repetitions.
Times timed(std::span<const int> cpus, std::size_t repeats,
            const std::function<void(const Member&)>& work);

}  // namespace pagelens::probes
