// Functions in which threads of a compiled program meet: those of libc, and of GCC's OpenMP. What a
// thread did before a meeting comes before what another does after it.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#include "tracer/compiled/system_calls.hpp"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace pagelens {
namespace {

// glibc has a second, older pthread_cond_wait, which dlsym() may find.
void* find(const char* name, const char* version) {
    void* const found = version == nullptr ? nullptr : ::dlvsym(RTLD_NEXT, name, version);
    return found != nullptr ? found : ::dlsym(RTLD_NEXT, name);
}

}  // namespace
}  // namespace pagelens

#define MEETING(type, name, version, parameters, arguments)                       \
    EXPORT type name parameters {                                                 \
        static auto* const real =                                                 \
            reinterpret_cast<type(*) parameters>(pagelens::find(#name, version)); \
        pagelens::meet();                                                         \
        const auto result = real arguments;                                       \
        pagelens::meet();                                                         \
        return result;                                                            \
    }

MEETING(int, pthread_join, nullptr, (pthread_t thread, void** result_at), (thread, result_at))
MEETING(int, pthread_barrier_wait, nullptr, (pthread_barrier_t * barrier) noexcept, (barrier))
MEETING(int, pthread_cond_wait, "GLIBC_2.3.2", (pthread_cond_t * condition, pthread_mutex_t* mutex),
        (condition, mutex))
MEETING(int, pthread_cond_signal, "GLIBC_2.3.2", (pthread_cond_t * condition) noexcept, (condition))
MEETING(int, pthread_cond_broadcast, "GLIBC_2.3.2", (pthread_cond_t * condition) noexcept,
        (condition))
MEETING(int, sem_wait, nullptr, (sem_t * semaphore), (semaphore))
MEETING(int, sem_post, nullptr, (sem_t * semaphore) noexcept, (semaphore))

namespace {

struct Region {
    void (*work)(void*);
    void* data;
};

// What each thread of a parallel region runs.
void run_region(void* given) {
    const auto& region = *static_cast<const Region*>(given);
    pagelens::meet();
    region.work(region.data);
    pagelens::meet();
}

}  // namespace

EXPORT void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) {
    static auto* const real =
        reinterpret_cast<void (*)(void (*)(void*), void*, unsigned, unsigned)>(
            ::dlsym(RTLD_NEXT, "GOMP_parallel"));
    Region region{work, data};
    real(run_region, &region, threads, flags);
    pagelens::meet();
}
EXPORT void GOMP_barrier() {
    static auto* const real = reinterpret_cast<void (*)()>(::dlsym(RTLD_NEXT, "GOMP_barrier"));
    pagelens::meet();
    real();
    pagelens::meet();
}
