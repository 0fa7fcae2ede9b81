#define _GNU_SOURCE
#include "preload/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/errors.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

int cancelling_off(void) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void cancelling_back(int state) { pthread_setcancelstate(state, NULL); }

bool read_text(const char* path, char* text, size_t room) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    size_t have = 0;
    ssize_t got;
    while (have + 1 < room && (got = read(file, text + have, room - 1 - have)) > 0)
        have += (size_t)got;
    close(file);
    text[have] = '\0';
    return have > 0;
}

static bool read_count(const char* path, uint64_t* value) {
    char text[64];
    return read_text(path, text, sizeof text) && sscanf(text, "%" SCNu64, value) == 1;
}

/* Counts free pages that are not reserved, and pages by which the pool may still grow. */
size_t pool_pages(size_t page_bytes) {
    static const char* const names[] = {"free_hugepages", "resv_hugepages",
                                        "nr_overcommit_hugepages", "surplus_hugepages"};
    uint64_t of[4];
    for (size_t i = 0; i < 4; i++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-%zukB/%s", page_bytes >> 10,
                 names[i]);
        if (!read_count(path, &of[i])) return 0;
    }
    return (of[0] > of[1] ? of[0] - of[1] : 0) + (of[2] > of[3] ? of[2] - of[3] : 0);
}

bool transparent_possible(void) {
    char text[64];
    if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0) return false;
    return read_text("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) &&
           strstr(text, "[never]") == NULL;
}

static uint64_t less(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What is left of `limit` bytes. A sixteenth is kept back, since other processes take memory
 * meanwhile and page tables need some. */
static uint64_t left_of(uint64_t limit, uint64_t used) {
    const uint64_t most = limit - limit / 16;
    return most > used ? most - used : 0;
}

/* The files of a version of control groups (Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst of Linux). */
struct groups {
    const char *root, *limit, *used;
};
static const struct groups version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                        "memory.usage_in_bytes"};
static const struct groups version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current"};

/* What a group and the groups above it leave, or UINT64_MAX without a limit. A container may not
 * see all folders of the path; those that are missing are skipped. */
static uint64_t group_available(const struct groups* groups, const char* group, int length) {
    const size_t root_length = strlen(groups->root);
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%.*s", groups->root, length, group);
    for (;;) {
        char file[PATH_MAX + 32];
        uint64_t limit, used;
        snprintf(file, sizeof file, "%s/%s", path, groups->limit);
        if (read_count(file, &limit)) { /* fails if the limit is "max" */
            snprintf(file, sizeof file, "%s/%s", path, groups->used);
            if (read_count(file, &used)) least = less(least, left_of(limit, used));
        }
        char* last = strrchr(path, '/');
        if (last == NULL || (size_t)(last - path) < root_length) return least;
        *last = '\0';
    }
}

/* The value of a line of /proc/meminfo, in bytes. */
static uint64_t meminfo(const char* text, const char* name) {
    const char* line = strstr(text, name);
    uint64_t kib;
    return line && sscanf(line, "%*s %" SCNu64, &kib) == 1 ? kib << 10 : 0;
}

uint64_t memory_available(void) {
    char text[4096];
    uint64_t least = UINT64_MAX;
    if (read_text("/proc/meminfo", text, sizeof text) && strstr(text, "MemAvailable:")) {
        const uint64_t total = meminfo(text, "MemTotal:");
        least = left_of(total, total - meminfo(text, "MemAvailable:"));
    }
    if (!read_text("/proc/self/cgroup", text, sizeof text)) return least;
    /* Lines have the form "number:controllers:path"; version 2 lists no controllers. */
    for (const char* line = text; line != NULL && *line;) {
        const char* controllers = strchr(line, ':');
        const char* group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) break;
        const int length = (int)strcspn(++group, "\n");
        const size_t names = (size_t)(group - controllers);
        if (names == 2)
            least = less(least, group_available(&version_2, group, length));
        else if (memmem(controllers, names, "memory", 6) != NULL)
            least = less(least, group_available(&version_1, group, length));
        line = group[length] ? group + length + 1 : NULL;
    }
    return least;
}

void* map_memory(void* hint, size_t bytes, int protection, int flags) {
    return (void*)syscall(SYS_mmap, hint, bytes, protection, flags, -1, 0);
}

int unmap_memory(void* start, size_t bytes) { return (int)syscall(SYS_munmap, start, bytes); }

void* remap_memory(void* from, size_t bytes, void* to) {
    return (void*)syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

/* For kernels before 5.14. Lets the kernel write to each page, because it then reports EFAULT where
 * an access by the program would raise SIGBUS. */
static bool touch(char* start, size_t bytes, size_t page_bytes) {
    const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zeros < 0) return false;
    bool done = true;
    for (size_t at = 0; at < bytes && done; at += page_bytes)
        done = read(zeros, start + at, 1) == 1;
    const int why = errno;
    close(zeros);
    errno = why;
    return done;
}

bool populate(void* start, size_t bytes, size_t page_bytes) {
    while (madvise(start, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        return errno == EINVAL && touch(start, bytes, page_bytes);
    }
    return true;
}

enum { MOST_SAID = 16 };
static const char* formats[MOST_SAID];
static char said[MOST_SAID][256];

const char* said_line(size_t i) { return i < MOST_SAID && said[i][0] ? said[i] : NULL; }

void say_once(const char* format, ...) {
    size_t i = 0;
    for (const char* before = NULL; i < MOST_SAID; i++, before = NULL) {
        if (__atomic_compare_exchange_n(&formats[i], &before, format, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            break;
        if (before == format) return;
    }
    if (i == MOST_SAID) return;
    const int saved_errno = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said[i], sizeof *said, format, arguments);
    va_end(arguments);
    char line[sizeof *said + 32];
    const int length = snprintf(line, sizeof line, "pagelens run: %s\n", said[i]);
    if (write(errors_file(), line, (size_t)length) < 0) errno = 0; /* nobody can read it */
    errno = saved_errno;
}
