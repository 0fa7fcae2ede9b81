// Parts of libc for the client, where DynamoRIO's loader hands out none or others.
//
// - libgcc asks the dynamic loader which unwind tables hold an address, for exceptions. Nothing but
//   the client is ever unwound. A libgcc for a glibc before 2.35 asks by dl_iterate_phdr instead,
//   which the loader hands out.
// - For open, close, read and write the loader takes DynamoRIO's functions of these names, which
//   have other flags and do not set errno.
// - Its memcpy, memmove and memset move byte by byte, and are most of some traces' time.
// - The client's libc was never told of the program's threads. It believes to be alone, and its
//   mutexes and conditions wake nobody.
// - The loader takes DynamoRIO's malloc and free, but leaves aligned_alloc to the libc. What that
//   handed out would be given back to the wrong heap.
#include <dlfcn.h>
#include <elf.h>
#include <emmintrin.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <limits>
#include <new>
#include <span>

// Hidden functions are bound when the client is linked, without asking the loader. The linker's
// -Bsymbolic-functions does the same for functions that the compiler knows (memcpy).
#pragma GCC visibility push(hidden)
extern "C" {
int open(const char* path, int flags, ...);
int close(int file);
ssize_t read(int file, void* buffer, std::size_t bytes);
ssize_t write(int file, const void* buffer, std::size_t bytes);
void* memcpy(void* to, const void* from, std::size_t bytes) noexcept;
void* memmove(void* to, const void* from, std::size_t bytes) noexcept;
void* memset(void* to, int value, std::size_t bytes) noexcept;
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept;
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept;
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex);
int pthread_cond_signal(pthread_cond_t* condition) noexcept;
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept;
#if __GLIBC_PREREQ(2, 35)
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
int _dl_find_object(void* address, struct dl_find_object* found) noexcept;
#endif
}
#pragma GCC visibility pop

int open(const char* path, int flags, ...) {
    va_list given;
    va_start(given, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(given, int) : 0;
    va_end(given);
    return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int close(int file) { return static_cast<int>(::syscall(SYS_close, file)); }
ssize_t read(int file, void* buffer, std::size_t bytes) {
    return ::syscall(SYS_read, file, buffer, bytes);
}
ssize_t write(int file, const void* buffer, std::size_t bytes) {
    return ::syscall(SYS_write, file, buffer, bytes);
}

namespace {

// Two words that may overlap: all is read before anything is written.
template <typename Word>
void move_ends(char* to, const char* from, std::size_t bytes) {
    Word first, last;
    __builtin_memcpy(&first, from, sizeof first);
    __builtin_memcpy(&last, from + bytes - sizeof last, sizeof last);
    __builtin_memcpy(to, &first, sizeof first);
    __builtin_memcpy(to + bytes - sizeof last, &last, sizeof last);
}

}  // namespace

void* memmove(void* to, const void* from, std::size_t bytes) noexcept {
    auto* const target = static_cast<char*>(to);
    const auto* const source = static_cast<const char*>(from);
    if (bytes >= 16 && bytes <= 32) {
        move_ends<__m128i>(target, source, bytes);
    } else if (bytes >= 8 && bytes < 16) {
        move_ends<std::uint64_t>(target, source, bytes);
    } else if (bytes >= 4 && bytes < 8) {
        move_ends<std::uint32_t>(target, source, bytes);
    } else if (bytes < 4) {
        if (bytes >= 2) move_ends<std::uint16_t>(target, source, bytes);
        if (bytes == 1) *target = *source;
    } else if (static_cast<std::size_t>(target - source) >= bytes) {  // forwards
        const __m128i last = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + bytes - 16));
        for (std::size_t at = 0; at < bytes - 16; at += 16) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(target + at),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at)));
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target + bytes - 16), last);
    } else {
        const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
        for (std::size_t at = bytes; at > 16; at -= 16) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(target + at - 16),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at - 16)));
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target), first);
    }
    return to;
}
void* memcpy(void* to, const void* from, std::size_t bytes) noexcept {
    return memmove(to, from, bytes);
}
void* memset(void* to, int value, std::size_t bytes) noexcept {
    void* at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
    return to;
}

// A mutex of three states: free, held, held with others waiting (Drepper, "Futexes are tricky").
// The zero of a new pthread_mutex_t is the first one.
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    int* const state = &mutex->__data.__lock;
    int seen = 0;
    if (__atomic_compare_exchange_n(state, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    while (__atomic_exchange_n(state, 2, __ATOMIC_ACQUIRE) != 0)
        ::syscall(SYS_futex, state, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
    return 0;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
    int* const state = &mutex->__data.__lock;
    if (__atomic_exchange_n(state, 0, __ATOMIC_RELEASE) == 2)
        ::syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    return 0;
}

// A condition counts its signals. Who waits goes on once there was one since it held the mutex; the
// caller looks whether what it waits for is so.
namespace {
std::uint32_t* signals_of(pthread_cond_t* condition) {
    return reinterpret_cast<std::uint32_t*>(condition);
}
int signal(pthread_cond_t* condition, int waiting) {
    std::uint32_t* const signals = signals_of(condition);
    __atomic_fetch_add(signals, 1, __ATOMIC_RELEASE);
    ::syscall(SYS_futex, signals, FUTEX_WAKE_PRIVATE, waiting, nullptr, nullptr, 0);
    return 0;
}
}  // namespace

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
    const std::uint32_t seen = __atomic_load_n(signals_of(condition), __ATOMIC_ACQUIRE);
    pthread_mutex_unlock(mutex);
    ::syscall(SYS_futex, signals_of(condition), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    pthread_mutex_lock(mutex);
    return 0;
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept { return signal(condition, 1); }
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
    return signal(condition, std::numeric_limits<int>::max());
}

// Just before the memory is where it begins on the heap.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    const std::size_t unit = std::max(static_cast<std::size_t>(alignment), sizeof(void*));
    void* const whole = ::operator new(bytes + unit);
    const auto begin = reinterpret_cast<std::uintptr_t>(whole) + sizeof(void*);
    auto** const memory = reinterpret_cast<void**>((begin + unit - 1) / unit * unit);
    memory[-1] = whole;
    return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept {
    if (memory != nullptr) ::operator delete(static_cast<void**>(memory)[-1]);
}
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
    ::operator delete(memory, alignment);
}

#if __GLIBC_PREREQ(2, 35)
int _dl_find_object(void* address, struct dl_find_object* found) noexcept {
    const auto base = reinterpret_cast<std::uintptr_t>(&__ehdr_start);
    const auto* headers = reinterpret_cast<const Elf64_Phdr*>(
        base + static_cast<std::uintptr_t>(__ehdr_start.e_phoff));
    std::uintptr_t end = base;
    std::uintptr_t tables = 0;
    for (const Elf64_Phdr& header : std::span(headers, __ehdr_start.e_phnum)) {
        if (header.p_type == PT_LOAD) end = base + header.p_vaddr + header.p_memsz;
        if (header.p_type == PT_GNU_EH_FRAME) tables = base + header.p_vaddr;
    }
    const auto asked = reinterpret_cast<std::uintptr_t>(address);
    if (asked < base || asked >= end || tables == 0) return -1;
    *found = {};
    found->dlfo_map_start = reinterpret_cast<void*>(base);
    found->dlfo_map_end = reinterpret_cast<void*>(end);
    found->dlfo_eh_frame = reinterpret_cast<void*>(tables);
    return 0;
}
#endif
