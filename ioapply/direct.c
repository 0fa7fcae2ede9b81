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
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ioapply/descriptors.h"
#include "ioapply/parts.h"
#include "ioapply/signals.h"

#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

static size_t smallest; /* bytes from which on a write is made direct; 0: none is */
static pthread_key_t at_exit_key;

THREAD_LOCAL char* own_memory; /* the thread's aligned buffer, and stacks of those that help it */

/* Frees the memory at the end of a thread. Destructors that run later may write, and then get a new
 * one. */
static void release(void* memory) {
    own_memory = NULL;
    syscall(SYS_munmap, memory, MEMORY_BYTES);
}

void direct_begin(void) {
    const char* wanted = getenv("PAGELENS_IO_DIRECT");
    if (wanted == NULL || !direct_ready() || pthread_key_create(&at_exit_key, release) != 0) return;
    const long bytes = atol(wanted);
    smallest = bytes > 0 ? (size_t)bytes : 0;
    parts_begin();
}

static char* memory_of_thread(void) {
    if (own_memory) return own_memory;
    void* memory = (void*)syscall(SYS_mmap, NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    pthread_setspecific(at_exit_key, memory);
    return own_memory = memory;
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
    char* memory = memory_of_thread();
    const size_t blocks = memory == NULL || is_limited(size, offset) ? 0 : whole;
    const size_t done = blocks > 0 ? write_in_parts(direct, buffer, blocks, offset, memory) : 0;
    if (done == size) return (ssize_t)done;
    const ssize_t rest = syscall(SYS_pwrite64, file, (const char*)buffer + done, size - done,
                                 offset + (off64_t)done);
    if (rest < 0) return done > 0 ? (ssize_t)done : -1;
    return (ssize_t)done + rest;
}

/* The same at the position of the file. Returns false if the file has none. */
static bool write_here(int file, const struct direct_file* direct, const void* buffer, size_t size,
                       ssize_t* result) {
    const off64_t end = syscall(SYS_lseek, file, (off64_t)size, SEEK_CUR);
    if (end < 0) return false;
    const off64_t offset = end - (off64_t)size;
    if (offset % direct->file_alignment == 0)
        *result = write_at(file, direct, buffer, size, offset);
    else
        *result = syscall(SYS_pwrite64, file, buffer, size, offset);
    const int failed = errno;
    const off64_t missing = (off64_t)size - (*result > 0 ? *result : 0);
    if (missing > 0) syscall(SYS_lseek, file, -missing, SEEK_CUR);
    errno = failed;
    return true;
}

/* `offset` is -1 for the position of the file. */
static bool write_direct(int file, const void* buffer, size_t size, off64_t offset,
                         ssize_t* result) {
    pthread_testcancel(); /* as in write(2) */
    const int saved_errno = errno;
    const uint64_t signals = hold_signals();
    const struct direct_file direct = direct_take(file);
    bool done = direct.descriptor >= 0;
    if (done) {
        if (offset < 0)
            done = write_here(file, &direct, buffer, size, result);
        else if ((done = offset % direct.file_alignment == 0))
            *result = write_at(file, &direct, buffer, size, offset);
        const int failed = errno;
        direct_give(file);
        errno = failed;
    }
    if (!done || *result >= 0) errno = saved_errno;
    let_signals(signals);
    return done;
}

static bool is_large(size_t size) { return smallest > 0 && size >= smallest && (ssize_t)size >= 0; }

bool direct_pwrite(int file, const void* buffer, size_t size, off64_t offset, ssize_t* result) {
    return is_large(size) && offset >= 0 && write_direct(file, buffer, size, offset, result);
}

bool direct_write(int file, const void* buffer, size_t size, ssize_t* result) {
    return is_large(size) && write_direct(file, buffer, size, -1, result);
}

void direct_end(void) {
    smallest = 0;
    direct_closed_range(0, ~0u);
}
