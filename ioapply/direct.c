/*
 * A write that is made direct has reached the file when it returns, as one through the page cache
 * has. Nothing is kept back in the program's memory, so a signal, a fork, a crash or kill -9 finds
 * the file as it would be otherwise.
 *
 * The position of a file is shared with other threads and processes. A write takes its part of it
 * at once, by lseek, and then writes there. What is not written in the end is given back. Signals
 * wait meanwhile, as the kernel lets them wait for a write to a file, so a handler that jumps away
 * leaves no part without its data.
 */
#define _GNU_SOURCE
#include "ioapply/direct.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ioapply/descriptors.h"

#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

enum { BOUNCE_BYTES = 4 << 20, BOUNCE_ALIGNMENT = 4096 };

static size_t smallest; /* bytes from which on a write is made direct; 0: none is */
static pthread_key_t at_exit_key;

THREAD_LOCAL char* bounce; /* the thread's aligned buffer */

static void release(void* memory) { syscall(SYS_munmap, memory, BOUNCE_BYTES); }

void direct_begin(void) {
    const char* wanted = getenv("PAGELENS_IO_DIRECT");
    if (wanted == NULL || !direct_ready() || pthread_key_create(&at_exit_key, release) != 0) return;
    const long bytes = atol(wanted);
    smallest = bytes > 0 ? (size_t)bytes : 0;
}

static char* bounce_memory(void) {
    if (bounce) return bounce;
    void* memory = (void*)syscall(SYS_mmap, NULL, BOUNCE_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    pthread_setspecific(at_exit_key, memory);
    return bounce = memory;
}

/* Both masks have the kernel's size. The C library's own signals wait too. */
static uint64_t hold_signals(void) {
    const uint64_t all = ~(uint64_t)0;
    uint64_t before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    return before;
}

static void let_signals(uint64_t before) {
    const int saved_errno = errno;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    errno = saved_errno;
}

/* Copies as the kernel does in write(2): memory that cannot be read is an error and no signal. */
static bool copied(char* to, const char* from, size_t size) {
    const struct iovec local = {to, size}, remote = {(void*)(uintptr_t)from, size};
    return syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Writes whole blocks. Returns how many bytes were written, which may be fewer. */
static size_t write_blocks(const struct direct_file* direct, const char* buffer, size_t size,
                           off64_t offset) {
    const bool aligned = (uintptr_t)buffer % direct->memory_alignment == 0;
    size_t done = 0;
    if (!aligned && BOUNCE_ALIGNMENT % direct->memory_alignment != 0) return 0;
    while (done < size) {
        size_t part = size - done;
        const char* from = buffer + done;
        if (!aligned) {
            char* memory = bounce_memory();
            if (part > BOUNCE_BYTES) part = BOUNCE_BYTES;
            if (memory == NULL || !copied(memory, from, part)) break;
            from = memory;
        }
        const ssize_t wrote =
            syscall(SYS_pwrite64, direct->descriptor, from, part, offset + (off64_t)done);
        if (wrote <= 0) break;
        done += (size_t)wrote;
        if ((size_t)wrote < part) break;
    }
    return done;
}

/* Whether the write ends beyond the process's limit, where the kernel makes it shorter. */
static bool is_limited(size_t size, off64_t offset) {
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) != 0 || (rlim_t)offset + size > most.rlim_cur;
}

/* Writes at an offset: whole blocks directly, and the rest, or all if that fails, as the program
 * said. */
static ssize_t write_at(int file, const struct direct_file* direct, const void* buffer, size_t size,
                        off64_t offset) {
    const size_t whole = size / direct->file_alignment * direct->file_alignment;
    const size_t blocks = is_limited(size, offset) ? 0 : whole;
    const size_t done = write_blocks(direct, buffer, blocks, offset);
    if (done == size) return (ssize_t)done;
    const ssize_t rest = syscall(SYS_pwrite64, file, (const char*)buffer + done, size - done,
                                 offset + (off64_t)done);
    if (rest < 0) return done > 0 ? (ssize_t)done : -1;
    return (ssize_t)done + rest;
}

bool direct_pwrite(int file, const void* buffer, size_t size, off64_t offset, ssize_t* result) {
    if (smallest == 0 || size < smallest || offset < 0 || (ssize_t)size < 0) return false;
    const int saved_errno = errno;
    const struct direct_file direct = direct_descriptor(file);
    errno = saved_errno;
    if (direct.descriptor < 0 || offset % direct.file_alignment != 0) return false;
    pthread_testcancel(); /* as in pwrite(2) */
    const uint64_t signals = hold_signals();
    *result = write_at(file, &direct, buffer, size, offset);
    let_signals(signals);
    if (*result >= 0) errno = saved_errno;
    return true;
}

bool direct_write(int file, const void* buffer, size_t size, ssize_t* result) {
    if (smallest == 0 || size < smallest || (ssize_t)size < 0) return false;
    const int saved_errno = errno;
    const struct direct_file direct = direct_descriptor(file);
    errno = saved_errno;
    if (direct.descriptor < 0) return false;
    pthread_testcancel(); /* as in write(2) */
    const uint64_t signals = hold_signals();
    const off64_t end = syscall(SYS_lseek, file, (off64_t)size, SEEK_CUR);
    if (end < 0) {
        let_signals(signals);
        errno = saved_errno;
        return false;
    }
    const off64_t offset = end - (off64_t)size;
    if (offset % direct.file_alignment == 0)
        *result = write_at(file, &direct, buffer, size, offset);
    else
        *result = syscall(SYS_pwrite64, file, buffer, size, offset);
    const int failed = errno;
    const off64_t missing = (off64_t)size - (*result > 0 ? *result : 0);
    if (missing > 0) syscall(SYS_lseek, file, -missing, SEEK_CUR);
    errno = *result >= 0 ? saved_errno : failed;
    let_signals(signals);
    return true;
}
