/*
 * A second descriptor is opened through /proc/self/fd, so the program's own one keeps its flags. It
 * must change nothing that the program can notice:
 * - Closing any descriptor of a file drops the process's locks of fcntl(2) on it. So there is a
 *   second descriptor only where no lock exists. It is closed when the program closes its own, or
 *   before the program takes a lock or a lease, after which the file is left alone.
 * - It has a high number, because programs count on the lowest free one.
 * - A descriptor can be closed and opened again by system calls that nobody sees. So device, inode
 *   and flags are compared before each use.
 * - Programs close numbers that they never opened, as daemons do, and use them for other files. So
 *   the same is compared for the second descriptor, before each use and before it is closed.
 */
#define _GNU_SOURCE
#include "ioapply/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ioapply/left_alone.h"
#include "ioapply/signals.h"

enum {
    MOST_DESCRIPTORS = 1 << 12, /* of the program; those beyond are left alone */
    FIRST_NUMBER = 900,         /* of second descriptors, or three quarters of the limit */
};
static const uint32_t DEFAULT_ALIGNMENT = 4096; /* of memory */

enum { UNKNOWN, BUSY, OPEN, REFUSED };

static struct {
    int state;   /* atomic */
    int writers; /* atomic; the second descriptor stays open while one writes to it */
    struct direct_file direct;
    dev_t device;
    ino_t inode;
} files[MOST_DESCRIPTORS];

static int any_opened; /* atomic; while it is 0, a lock has no second descriptor to close */

static const struct direct_file NONE = {-1, 0, 0, 0};
static pid_t own; /* the child of a vfork has its parent's memory, but descriptors of its own */

static bool in_own_process(void) { return getpid() == own; }

/* Whether writes to the descriptor go to the page cache and to where its position is. */
static bool is_plain(int file) {
    const int flags = (int)syscall(SYS_fcntl, file, F_GETFL);
    const int access = flags & O_ACCMODE;
    return flags >= 0 && (access == O_WRONLY || access == O_RDWR) &&
           !(flags & (O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_PATH));
}

static int high_number(int low) {
    struct rlimit most;
    long first = FIRST_NUMBER;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur / 4 * 3 < (rlim_t)first)
        first = (long)(most.rlim_cur / 4 * 3);
    const int high = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, first);
    syscall(SYS_close, low);
    return high;
}

static struct direct_file opened(int file) {
    char path[32];
    struct statx info;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const int low = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (low < 0) return NONE;
    /* Whole pages, also where the disk has smaller blocks: if another process wrote to the rest of
     * a page meanwhile, its copy of the page would replace what was written here. */
    const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    struct direct_file direct = {high_number(low), page, DEFAULT_ALIGNMENT, 0};
    if (direct.descriptor < 0) return NONE;
    memset(&info, 0, sizeof info);
#ifdef STATX_DIOALIGN
    if (statx(direct.descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
        info.stx_mask & STATX_DIOALIGN) {
        if (info.stx_dio_offset_align == 0) { /* the kernel would copy all the same */
            syscall(SYS_close, direct.descriptor);
            return NONE;
        }
        if (info.stx_dio_offset_align > page) direct.file_alignment = info.stx_dio_offset_align;
        direct.memory_alignment = info.stx_dio_mem_align;
    }
#endif
    return direct;
}

static bool is_file(int descriptor, dev_t device, ino_t inode) {
    struct stat info;
    return syscall(SYS_fstat, descriptor, &info) == 0 && info.st_dev == device &&
           info.st_ino == inode;
}

/* Whether the second descriptor of `file` is the one that was opened here. */
static bool is_second(int file) {
    const int descriptor = files[file].direct.descriptor;
    const int flags = (int)syscall(SYS_fcntl, descriptor, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && flags & O_DIRECT &&
           !(flags & O_APPEND) && is_file(descriptor, files[file].device, files[file].inode);
}

/* A child has its parent's second descriptors, and would keep files open that it closes. */
static void close_in_child(void) {
    own = getpid();
    for (int i = 0; i < MOST_DESCRIPTORS; i++) {
        if (files[i].state == OPEN && is_second(i)) syscall(SYS_close, files[i].direct.descriptor);
        files[i].state = UNKNOWN;
        files[i].writers = 0;
    }
}

bool direct_ready(void) {
    own = getpid();
    return pthread_atfork(NULL, NULL, close_in_child) == 0;
}

static void open_second(int file, const struct stat* info) {
    int expected = UNKNOWN;
    if (!__atomic_compare_exchange_n(&files[file].state, &expected, BUSY, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&any_opened, 1, __ATOMIC_SEQ_CST);
    /* Locks count only now that the state is BUSY: a thread that takes a lock first leaves the file
     * alone, and then waits until the state is another. */
    const bool locked = is_locked(file) || is_left_alone(info->st_dev, info->st_ino);
    files[file].direct = locked || is_checksummed(file) ? NONE : opened(file);
    files[file].device = info->st_dev;
    files[file].inode = info->st_ino;
    const int failed = locked ? UNKNOWN : REFUSED;
    __atomic_store_n(&files[file].state, files[file].direct.descriptor < 0 ? failed : OPEN,
                     __ATOMIC_SEQ_CST);
}

struct direct_file direct_take(int file) {
    struct stat info;
    if (file < 0 || file >= MOST_DESCRIPTORS || !in_own_process()) return NONE;
    if (__atomic_load_n(&files[file].state, __ATOMIC_ACQUIRE) == REFUSED) return NONE;
    if (!is_plain(file) || syscall(SYS_fstat, file, &info) != 0 || !S_ISREG(info.st_mode))
        return NONE;
    if (is_left_alone(info.st_dev, info.st_ino)) return NONE;
    open_second(file, &info);
    __atomic_fetch_add(&files[file].writers, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&files[file].state, __ATOMIC_SEQ_CST) == OPEN) {
        const bool same = files[file].device == info.st_dev && files[file].inode == info.st_ino;
        if (same && is_second(file)) {
            struct direct_file direct = files[file].direct;
            direct.length = info.st_size;
            return direct;
        }
        direct_give(file);
        direct_closed(file); /* it was another file's */
        return NONE;
    }
    direct_give(file);
    return NONE;
}

void direct_give(int file) { __atomic_fetch_sub(&files[file].writers, 1, __ATOMIC_SEQ_CST); }

/* Closes the second descriptor. If the number has another file by now, this could drop locks that
 * the program has by other descriptors; then it stays open. */
static void close_second(int file) {
    const int second = files[file].direct.descriptor;
    while (__atomic_load_n(&files[file].writers, __ATOMIC_SEQ_CST) > 0) sched_yield();
    if (is_second(file) &&
        (is_file(file, files[file].device, files[file].inode) || !is_locked(second)))
        syscall(SYS_close, second);
}

void direct_closed(int file) {
    if (file < 0 || file >= MOST_DESCRIPTORS || files[file].state == UNKNOWN || !in_own_process())
        return;
    const int saved_errno = errno;
    const uint64_t signals = hold_signals(); /* a handler that waits for BUSY would wait forever */
    int state = __atomic_load_n(&files[file].state, __ATOMIC_SEQ_CST);
    while (state != UNKNOWN &&
           (state == BUSY || !__atomic_compare_exchange_n(&files[file].state, &state, BUSY, false,
                                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))) {
        sched_yield();
        state = __atomic_load_n(&files[file].state, __ATOMIC_SEQ_CST);
    }
    if (state == OPEN) close_second(file);
    if (state != UNKNOWN) __atomic_store_n(&files[file].state, UNKNOWN, __ATOMIC_SEQ_CST);
    let_signals(signals);
    errno = saved_errno;
}

void direct_closed_range(unsigned first, unsigned last) {
    for (unsigned i = first; i <= last && i < MOST_DESCRIPTORS; i++) direct_closed((int)i);
}

/* Finds out which file a descriptor has. Returns false if it is none that can be direct. */
static bool identified(int file, struct stat* info) {
    const int saved_errno = errno;
    const bool found = syscall(SYS_fstat, file, info) == 0 && S_ISREG(info->st_mode);
    errno = saved_errno;
    return found;
}

void direct_mapped(int file) {
    struct stat info;
    if (identified(file, &info)) leave_alone(info.st_dev, info.st_ino);
}

void direct_locked(int file) {
    struct stat info;
    if (!in_own_process() || !identified(file, &info)) return;
    leave_alone(info.st_dev, info.st_ino);
    if (!__atomic_load_n(&any_opened, __ATOMIC_SEQ_CST)) return;
    for (int i = 0; i < MOST_DESCRIPTORS; i++) {
        while (__atomic_load_n(&files[i].state, __ATOMIC_SEQ_CST) == BUSY) sched_yield();
        if (files[i].state == OPEN && files[i].device == info.st_dev &&
            files[i].inode == info.st_ino)
            direct_closed(i);
    }
}
