#include "probes/team.hpp"

#include <emmintrin.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "probes/clock.hpp"
#include "probes/failure.hpp"
#include "probes/stop.hpp"

namespace pagelens::probes {

// A set of processors as sched_setaffinity(2) takes it: 0 means the calling thread.
class CpuSet {
  public:
    CpuSet() : set_(CPU_ALLOC(most_cpus)) { CPU_ZERO_S(size, set_); }
    ~CpuSet() { CPU_FREE(set_); }
    CpuSet(const CpuSet&) = delete;
    CpuSet& operator=(const CpuSet&) = delete;

    void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), size, set_); }
    [[nodiscard]] bool has(int cpu) const {
        return cpu >= 0 && cpu < most_cpus &&
               CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set_);
    }
    bool read() { return sched_getaffinity(0, size, set_) == 0; }
    bool apply() const { return sched_setaffinity(0, size, set_) == 0; }

  private:
    static constexpr int most_cpus = 1 << 16;
    static constexpr std::size_t size = CPU_ALLOC_SIZE(most_cpus);
    cpu_set_t* set_;
};

namespace {

void check(std::span<const int> cpus) {
    if (cpus.empty()) throw std::invalid_argument("cpus: none; name one at least");
    CpuSet usable;
    if (!usable.read()) throw Failure(errno, "cpus: sched_getaffinity failed");
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        const std::string name = std::to_string(cpus[i]);
        if (!usable.has(cpus[i])) {
            throw std::invalid_argument("cpus: " + name +
                                        " is none of this thread's; `taskset -pc $$` lists them");
        }
        if (std::find(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(i), cpus[i]) !=
            cpus.begin() + static_cast<std::ptrdiff_t>(i)) {
            throw std::invalid_argument("cpus: " + name + " is named twice");
        }
    }
}

}  // namespace

void Barrier::wait() {
    const unsigned generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
        arrived_.store(0, std::memory_order_relaxed);
        generation_.store(generation + 1, std::memory_order_release);
        return;
    }
    while (generation_.load(std::memory_order_acquire) == generation) _mm_pause();
}

Member::Part Member::part_of(std::size_t n, std::size_t unit) const {
    const auto bound = [&](std::size_t i) { return i == count ? n : n / unit * i / count * unit; };
    return {bound(index), bound(index + 1)};
}

void run_pinned(std::span<const int> cpus, const std::function<void(const Member&)>& work) {
    check(cpus);
    const std::size_t count = cpus.size();
    Barrier barrier(static_cast<unsigned>(count));
    std::atomic<int> error{0};
    const auto take_part = [&](std::size_t index) {
        CpuSet before, own;
        own.add(cpus[index]);
        if (!before.read() || !own.apply()) error = errno;
        barrier.wait();
        if (error == 0) work(Member{index, count, barrier});
        if (!before.apply()) error = errno;
    };
    // Nobody goes to the barrier before all threads exist, because the system may refuse the last.
    enum Start { waiting, all_exist, one_refused };
    std::atomic<Start> start{waiting};
    std::vector<std::thread> others;
    others.reserve(count - 1);
    try {
        while (others.size() + 1 < count) {
            others.emplace_back([&, index = others.size() + 1] {
                start.wait(waiting);
                if (start == all_exist) take_part(index);
            });
        }
        start = all_exist;
    } catch (const std::system_error& refused) {
        error = refused.code().value();
        start = one_refused;
    }
    start.notify_all();
    if (start == all_exist) take_part(0);
    for (std::thread& other : others) other.join();
    if (start == one_refused) {
        throw Failure(error, "cpus: the system refuses the thread of processor " +
                                 std::to_string(cpus[others.size() + 1]) +
                                 "; raise `ulimit -u` or `ulimit -v`, or name fewer processors");
    }
    if (error != 0) throw Failure(error, "cpus: sched_setaffinity failed");
}

Confined::Confined(std::span<const int> cpus) : before_(std::make_unique<CpuSet>()) {
    check(cpus);
    CpuSet own;
    for (const int cpu : cpus) own.add(cpu);
    if (!before_->read() || !own.apply()) throw Failure(errno, "cpus: sched_setaffinity failed");
}

Confined::~Confined() { before_->apply(); }

std::vector<double> Times::slowest() const {
    std::vector<double> seconds(repeats_);
    for (std::size_t repeat = 0; repeat < repeats_; ++repeat) {
        std::int64_t begin = stamps_[repeat].begin, end = stamps_[repeat].end;
        for (std::size_t thread = 1; thread < threads_; ++thread) {
            begin = std::min(begin, stamps_[thread * repeats_ + repeat].begin);
            end = std::max(end, stamps_[thread * repeats_ + repeat].end);
        }
        seconds[repeat] = static_cast<double>(end - begin) * 1e-9;
    }
    return seconds;
}

std::vector<double> Times::each() const {
    std::vector<double> seconds(stamps_.size());
    for (std::size_t repeat = 0; repeat < repeats_; ++repeat) {
        for (std::size_t thread = 0; thread < threads_; ++thread) {
            const Stamps& stamps = stamps_[thread * repeats_ + repeat];
            seconds[repeat * threads_ + thread] =
                static_cast<double>(stamps.end - stamps.begin) * 1e-9;
        }
    }
    return seconds;
}

Times timed(std::span<const int> cpus, std::size_t repeats,
            const std::function<void(const Member&)>& work) {
    if (repeats == 0) throw std::invalid_argument("repeats: 0; at least 1");
    Times times(cpus.size(), repeats);
    // The first thread decides for all, before they meet: the repetition before which they leave.
    std::atomic<std::size_t> last{repeats};
    run_pinned(cpus, [&](const Member& member) {
        for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
            if (member.index == 0 && stop_requested()) last = repeat;
            member.barrier.wait();
            if (repeat >= last) return;
            const std::int64_t begin = now_ns();
            work(member);
            times.set(member.index, repeat, begin, now_ns());
        }
    });
    check_stop();
    return times;
}

}  // namespace pagelens::probes
