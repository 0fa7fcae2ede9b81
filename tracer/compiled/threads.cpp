// The threads of a compiled program: they begin with their first access, meet, and end.
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <mutex>
#include <utility>

#include "tracer/compiled/own.hpp"
#include "tracer/compiled/system_calls.hpp"

thread_local pagelens::Vcpu* pagelens_thread = nullptr;
int pagelens_listens = 0;

namespace pagelens {

thread_local Own own;

namespace {

std::array<std::atomic<Own*>, Tracer::max_vcpus> threads;
std::mutex threads_mutex;  // of which indices are free, and of what follows
std::uint64_t missed_by_ended = 0;
constexpr unsigned wait_us = 100;
constexpr int most_waits = 200;

// Makes all threads of the process pass a memory barrier, so that `Inside` needs none.
void barrier_everywhere() {
    static const bool registered =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (registered) ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

pthread_key_t make_key() {
    pthread_key_t key{};
    ::pthread_key_create(&key, [](void*) { end_thread(); });
    return key;
}

void begin_thread() {
    static const pthread_key_t key = make_key();
    ::pthread_setspecific(key, &own);
    {
        const std::lock_guard lock(threads_mutex);
        unsigned index = 0;
        while (index < threads.size() && threads[index].load() != nullptr) ++index;
        own.index = index;
        if (index < threads.size()) threads[index].store(&own);
    }
    tracer->begin_thread(own.index);
    own.vcpu = &Tracer::vcpu(own.index);
    tracer->know_stack(*own.vcpu, reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
}

}  // namespace

// The thread does not wait for ever: a handler of a signal may have interrupted the allocator, and
// the thread that forks waits for the allocator's lock.
bool Inside::wait_at_gate() {
    int before = 0;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    const bool open = wait_until_open();
    ::pthread_setcancelstate(before, nullptr);
    return open;
}

bool Inside::wait_until_open() {
    if (gate_keeper.load(std::memory_order_acquire) == &own) return true;
    own.inside.store(0, std::memory_order_release);
    for (int waits = 0; waits < most_waits; ++waits) {
        ::usleep(wait_us);
        if (gate_keeper.load(std::memory_order_acquire) != nullptr) continue;
        own.inside.store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (gate_keeper.load(std::memory_order_acquire) == nullptr) return true;
        own.inside.store(0, std::memory_order_release);
    }
    own.inside.store(1, std::memory_order_relaxed);
    return false;
}

void close_gate() {
    Own* open = nullptr;
    while (!gate_keeper.compare_exchange_weak(open, &own)) {
        if (open == &own) return;
        open = nullptr;
        ::usleep(wait_us);
    }
    barrier_everywhere();
    for (const auto& other : threads) {
        const Own* const thread = other.load();
        if (thread == nullptr || thread == &own) continue;
        while (other.load() == thread && thread->inside.load(std::memory_order_acquire) > 0)
            ::usleep(wait_us);
    }
}

void open_gate() { gate_keeper.store(nullptr, std::memory_order_release); }

Vcpu* begun_thread() {
    if (tracer == nullptr || own.ended || stage == Stage::off) return nullptr;
    if (own.vcpu == nullptr) begin_thread();
    return own.vcpu;
}

Vcpu* thread_without_strip(std::uint64_t accesses) {
    static std::atomic<std::uint64_t> skipped{0};
    if (stage == Stage::off || own.ended || own.inside > 0) return nullptr;
    const Inside inside;
    if (!inside) return nullptr;
    if (stage == Stage::skipping &&
        skipped.fetch_add(accesses, std::memory_order_relaxed) + accesses >= options.skip)
        go_to(Stage::tracing);
    Vcpu* const vcpu = begun_thread();
    if (stage == Stage::tracing && vcpu != nullptr && vcpu->block != nullptr)
        return pagelens_thread = vcpu;
    own.missed.store(own.missed.load(std::memory_order_relaxed) + accesses,
                     std::memory_order_relaxed);
    return nullptr;
}

// The compiler tells of no instructions but of those that access memory, so these are counted.
bool count(Vcpu& vcpu) {
    vcpu.left = static_cast<std::int64_t>(vcpu.look_at - vcpu.accesses());
    if (vcpu.left < 0) tracer->look(vcpu);
    if (stage == Stage::tracing) [[likely]]
        return true;
    pagelens_thread = nullptr;
    if (stage == Stage::finishing) tracer->stop_recording(vcpu);
    return false;
}

void go_to(Stage to) {
    Stage from = stage;
    while (from != Stage::off && from != Stage::finishing && from != to)
        if (stage.compare_exchange_weak(from, to)) return;
}

bool start_thread(void (*work)(void*), void* argument) {
    using Work = std::pair<void (*)(void*), void*>;
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    auto* const given = new Work{work, argument};
    const int error = real_pthread_create(
        &thread, nullptr,
        [](void* text) -> void* {
            own.ended = true;  // it is no thread of the program
            own.inside = 1;
            const Work mine = *static_cast<Work*>(text);
            delete static_cast<Work*>(text);
            mine.first(mine.second);
            return nullptr;
        },
        given);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0) ::pthread_detach(thread);
    return error == 0;
}

void end_thread() {
    const Inside inside;
    if (own.vcpu == nullptr || std::exchange(own.ended, true)) return;
    pagelens_thread = nullptr;
    if (tracer != nullptr && stage != Stage::off) {
        count(*own.vcpu);
        tracer->end_thread(own.index);
    }
    const std::lock_guard lock(threads_mutex);
    missed_by_ended += own.missed;
    threads[own.index].store(nullptr);
}

std::uint64_t missed_accesses() {
    std::uint64_t all = missed_by_ended;
    for (const auto& thread : threads)
        if (const Own* const other = thread.load()) all += other->missed;
    return all;
}

void forget_other_threads() {
    for (auto& thread : threads)
        if (thread.load() != &own) thread.store(nullptr);
    missed_by_ended = 0;
    own.missed = 0;
    pagelens_thread = nullptr;
}

}  // namespace pagelens
