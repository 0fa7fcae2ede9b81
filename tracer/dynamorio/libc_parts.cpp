// Parts of libc for the client, where DynamoRIO's loader hands out none or others.
//
// - libgcc asks the dynamic loader which unwind tables hold an address, for exceptions. Nothing but
//   the client is ever unwound.
// - For open, close, read and write the loader takes DynamoRIO's functions of these names, which
//   have other flags and do not set errno.
// - The client's libc was never told of the program's threads. It believes to be alone, and its
//   mutexes wake nobody.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <span>

// What is hidden is bound when the client is linked, and the loader is not asked.
#pragma GCC visibility push(hidden)
extern "C" {
int open(const char* path, int flags, ...);
int close(int file);
ssize_t read(int file, void* buffer, std::size_t bytes);
ssize_t write(int file, const void* buffer, std::size_t bytes);
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept;
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept;
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
int _dl_find_object(void* address, struct dl_find_object* found) noexcept;
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
