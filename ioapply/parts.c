/*
 * A large direct write that lies within a file can be divided among threads. They live only during
 * the write, so nothing is under way when it has returned, and no fork, signal or change of user
 * meets them. Writes that make the file longer stay whole: if the program died meanwhile, a part
 * that was written early would leave a hole before it.
 *
 * The threads are made by clone(2), because a signal handler may write, but may not call
 * pthread_create. They have no thread-local memory of their own. They change only errno there,
 * which the calling thread does not use until they have ended.
 */
#define _GNU_SOURCE
#include "ioapply/parts.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* glibc 2.35 */
#define MADV_POPULATE_READ 22
#endif

enum { BOUNCE_ALIGNMENT = 4096, LEAST_PART = 1 << 20 };

static size_t most_threads = 1;

struct part {
    const struct direct_file* direct;
    const char* buffer;
    size_t size;
    off64_t offset;
    char* bounce;
    size_t bounce_bytes;
    size_t done;   /* bytes that were written */
    int under_way; /* atomic; the kernel makes it 0 when the thread has ended */
};

/* The kernel brings the pages in, as the write would. Kernels before 5.14 refuse this. */
static bool all_is_readable(const char* buffer, size_t size) {
    const uintptr_t first = (uintptr_t)buffer / BOUNCE_ALIGNMENT * BOUNCE_ALIGNMENT;
    const size_t bytes = (uintptr_t)buffer + size - first;
    return syscall(SYS_madvise, first, bytes, MADV_POPULATE_READ) == 0;
}

void parts_begin(void) {
    const char* wanted = getenv("PAGELENS_IO_THREADS");
    const long threads = wanted ? atol(wanted) : 1;
    most_threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : (size_t)threads;
}

/* Copies as the kernel does in write(2): memory that cannot be read is an error and no signal. */
static bool copied(char* to, const char* from, size_t size) {
    const struct iovec local = {to, size}, remote = {(void*)(uintptr_t)from, size};
    return syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static int write_part(void* argument) {
    struct part* part = argument;
    const uint32_t alignment = part->direct->memory_alignment;
    const bool aligned = (uintptr_t)part->buffer % alignment == 0;
    if (!aligned && BOUNCE_ALIGNMENT % alignment != 0) return 0;
    while (part->done < part->size) {
        size_t piece = part->size - part->done;
        const char* from = part->buffer + part->done;
        if (!aligned) {
            if (piece > part->bounce_bytes) piece = part->bounce_bytes;
            if (!copied(part->bounce, from, piece)) break;
            from = part->bounce;
        }
        const ssize_t wrote = syscall(SYS_pwrite64, part->direct->descriptor, from, piece,
                                      part->offset + (off64_t)part->done);
        if (wrote <= 0) break;
        part->done += (size_t)wrote;
        if ((size_t)wrote < piece) break;
    }
    return 0;
}

static void start(struct part* part, char* stack_end) {
    static const int LIKE_A_THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                     CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    part->under_way = 1;
    if (clone(write_part, stack_end, LIKE_A_THREAD, part, NULL, NULL, &part->under_way) < 0) {
        part->under_way = 0;
        write_part(part);
    }
}

static void wait_for(struct part* part) {
    int value;
    while ((value = __atomic_load_n(&part->under_way, __ATOMIC_ACQUIRE)) != 0)
        syscall(SYS_futex, &part->under_way, FUTEX_WAIT, value, NULL, NULL, 0);
}

static size_t parts_of(const struct direct_file* direct, size_t size, off64_t offset) {
    const bool within = offset + (off64_t)size <= direct->length;
    const size_t most = size / LEAST_PART;
    return !within || most < 1 ? 1 : most < most_threads ? most : most_threads;
}

size_t write_in_parts(const struct direct_file* direct, const char* buffer, size_t size,
                      off64_t offset, char* memory) {
    struct part parts[MOST_THREADS];
    size_t count = parts_of(direct, size, offset);
    /* write(2) writes nothing behind memory that it cannot read, but a later part would. */
    if (count > 1 && !all_is_readable(buffer, size)) count = 1;
    const size_t block = direct->file_alignment;
    const size_t each = (size / count + block - 1) / block * block; /* of the last one the rest */
    const size_t bounce = BOUNCE_BYTES / count / BOUNCE_ALIGNMENT * BOUNCE_ALIGNMENT;
    for (size_t i = 0; i < count; i++) {
        const size_t begin = i * each < size ? i * each : size;
        const size_t rest = size - begin;
        parts[i] = (struct part){direct,
                                 buffer + begin,
                                 rest < each ? rest : each,
                                 offset + (off64_t)begin,
                                 memory + i * bounce,
                                 bounce,
                                 0,
                                 0};
    }
    char* const stacks = memory + BOUNCE_BYTES;
    for (size_t i = 1; i < count; i++) start(&parts[i], stacks + (i + 1) * STACK_BYTES);
    write_part(&parts[0]);
    size_t done = 0;
    for (size_t i = 1; i < count; i++) wait_for(&parts[i]);
    for (size_t i = 0; i < count; i++) {
        done += parts[i].done;
        if (parts[i].done < parts[i].size) break;
    }
    return done;
}
