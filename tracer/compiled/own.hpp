// What a thread of a compiled program has of its own, and the stage that all threads are in.
#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "tracer/options.hpp"
#include "tracer/tracer.hpp"

// The thread's Vcpu while its accesses are recorded, else null. The program's code may read it
// (hooks/pagelens_inline.h), so its model is one that needs no call.
extern "C" {
[[gnu::visibility("default"),
  gnu::tls_model("initial-exec")]] extern thread_local pagelens::Vcpu* pagelens_thread;
// Whether the process is traced, for the same code.
[[gnu::visibility("default")]] extern int pagelens_listens;
}

namespace pagelens {

enum class Stage : std::uint8_t {
    off,        // the tracer has not begun, or the process is not traced
    waiting,    // outside the region of --region
    skipping,   // --skip accesses are counted
    tracing,    // every access
    finishing,  // the budget is used up, or the program ends: accesses are counted
};

inline Options options;
inline Tracer* tracer = nullptr;  // never deleted
inline std::atomic<Stage> stage{Stage::off};

struct Own {
    Vcpu* vcpu = nullptr;                  // once the thread has begun
    unsigned index = 0;                    // of `vcpu`
    std::atomic<unsigned> inside{0};       // the thread is in the tracer, so many times over
    bool ended = false;                    // nothing more is recorded
    std::atomic<std::uint64_t> missed{0};  // accesses that were not recorded
};

// Also initial-exec: it is read while memory is allocated.
extern thread_local Own own [[gnu::tls_model("initial-exec")]];

// The thread that has closed the gate, if any.
inline std::atomic<Own*> gate_keeper{nullptr};

// Whether the program has cancelled a thread. Threads inside the tracer are not cancelled there:
// what they wait for is no cancellation point of the program, and they may hold locks.
inline std::atomic<bool> cancels{false};

// A thread is inside the tracer as long as one of these exists. What it allocates, copies and maps
// there is no work of the program. A thread that closes the gate waits until no other is inside.
class Inside {
  public:
    Inside() {
        first_ = own.inside.load(std::memory_order_relaxed) == 0;
        own.inside.store(own.inside.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        // close_gate() makes this thread pass a barrier of memory, so that none is needed here.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (first_ && gate_keeper.load(std::memory_order_acquire) != nullptr) [[unlikely]]
            first_ = wait_at_gate();
        if (cancels.load(std::memory_order_relaxed)) [[unlikely]]
            ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled_before_);
    }
    ~Inside() {
        if (cancelled_before_ == PTHREAD_CANCEL_ENABLE) [[unlikely]]
            ::pthread_setcancelstate(cancelled_before_, nullptr);
        own.inside.store(own.inside.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    // False: nothing may be recorded. A signal interrupted the thread inside the tracer, the tracer
    // called itself, or the gate stays closed.
    explicit operator bool() const { return first_; }

  private:
    [[gnu::noinline]] static bool wait_at_gate();
    static bool wait_until_open();
    bool first_;
    int cancelled_before_ = PTHREAD_CANCEL_DISABLE;  // as the thread had it
};

// Returns the thread's Vcpu if the program may be recorded now, or null. The thread begins if it is
// new. Call this inside.
Vcpu* begun_thread();

// Counts accesses that the program made without `pagelens_thread`, and sets that if the thread's
// accesses are to be recorded from here on. Returns it.
[[gnu::noinline]] Vcpu* thread_without_strip(std::uint64_t accesses);

// Tells the tracer how far the thread has come. Returns false if it is to record no more.
bool count(Vcpu& vcpu);

// Keeps all other threads out of the tracer, and waits until they have left it.
void close_gate();
void open_gate();

// Runs `work(argument)` in a thread that the program does not know of.
bool start_thread(void (*work)(void*), void* argument);

// The accesses of all threads that were not recorded. Call this with the gate closed.
std::uint64_t missed_accesses();
// In a forked child only the calling thread is left.
void forget_other_threads();
void forget_private_heap();
void end_thread();

// The process ends with this status.
void finish(int status);
void go_to(Stage to);

}  // namespace pagelens
