#define _GNU_SOURCE
#include "iorecord/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/log.h"

enum { MOST_DESCRIPTORS = 1 << 16, CACHESTAT = 451 };
static const uint64_t NOT_KNOWN = ~0ull;

static uint8_t known[MOST_DESCRIPTORS]; /* atomic */

struct cache_range {
    uint64_t offset, bytes;
};
struct cache_counts {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
};

/* cachestat(2) is in Linux 6.5 and later. */
static uint64_t cached_pages(int descriptor) {
    struct cache_range whole = {0, 0};
    struct cache_counts counts;
    if (syscall(CACHESTAT, descriptor, &whole, &counts, 0) != 0) return NOT_KNOWN;
    return counts.cached;
}

static void describe(int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return;
    struct record record = {0};
    struct statfs system;
    struct timespec now;
    char link[32], path[MOST_TEXT];
    const bool regular = S_ISREG(info.st_mode);
    clock_gettime(CLOCK_MONOTONIC, &now);
    record.start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    record.FILE_CACHED_PAGES = regular ? cached_pages(descriptor) : NOT_KNOWN;
    record.FILE_SYSTEM = fstatfs(descriptor, &system) == 0 ? (uint64_t)system.f_type : 0;
    record.FILE_POSITION = (int64_t)syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
    record.FILE_BYTES = (uint64_t)info.st_size;
    record.FILE_INODE = (int64_t)info.st_ino;
    record.FILE_DEVICE = (uint64_t)info.st_dev;
    record.FILE_MODE = info.st_mode;
    record.descriptor = descriptor;
    const int flags = (int)syscall(SYS_fcntl, descriptor, F_GETFL);
    record.flags = flags < 0 ? 0 : (uint32_t)flags;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    log_with_text(KIND_FILE, &record, path);
}

static bool in_table(int descriptor) { return descriptor >= 0 && descriptor < MOST_DESCRIPTORS; }

void file_seen(int descriptor) {
    if (!in_table(descriptor) || __atomic_load_n(&known[descriptor], __ATOMIC_RELAXED)) return;
    const int saved_errno = errno;
    __atomic_store_n(&known[descriptor], 1, __ATOMIC_RELAXED);
    describe(descriptor);
    errno = saved_errno;
}

void file_gone(int descriptor) {
    if (in_table(descriptor)) __atomic_store_n(&known[descriptor], 0, __ATOMIC_RELAXED);
}

void files_gone(unsigned first, unsigned last) {
    for (unsigned i = first; i <= last && i < MOST_DESCRIPTORS; i++) file_gone((int)i);
}

void files_forked(void) { memset(known, 0, sizeof known); }

void file_doubled(int descriptor, int second) {
    if (in_table(descriptor) && in_table(second))
        __atomic_store_n(&known[second], known[descriptor], __ATOMIC_RELAXED);
}
