/*
 * A second descriptor is opened through /proc/self/fd, so the program's own one keeps its flags. It
 * must change nothing that the program can notice:
 * - Closing any descriptor of a file drops the process's locks of fcntl(2) on it. So there is a
 *   second descriptor only where no lock exists, and it is closed when the program closes its own.
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
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MOST_DESCRIPTORS = 1 << 12, /* of the program; those beyond are left alone */
    FIRST_NUMBER = 900,         /* of second descriptors, or three quarters of the limit */
    MOST_MAPPED = 64,           /* files that were mapped; if there are more, all are left alone */
};
static const uint32_t DEFAULT_ALIGNMENT = 4096; /* of memory */

enum { UNKNOWN, BUSY, OPEN, REFUSED };

static struct {
    int state; /* atomic */
    struct direct_file direct;
    dev_t device;
    ino_t inode;
} files[MOST_DESCRIPTORS];

static struct {
    dev_t device;
    ino_t inode;
} mapped[MOST_MAPPED];
static unsigned mapped_count; /* atomic; may exceed MOST_MAPPED */

static const struct direct_file NONE = {-1, 0, 0};
static pid_t own; /* the child of a vfork has its parent's memory, but descriptors of its own */

static bool in_own_process(void) { return getpid() == own; }

static bool is_mapped(dev_t device, ino_t inode) {
    const unsigned count = __atomic_load_n(&mapped_count, __ATOMIC_ACQUIRE);
    if (count > MOST_MAPPED) return true;
    for (unsigned i = 0; i < count; i++)
        if (mapped[i].device == device && mapped[i].inode == inode) return true;
    return false;
}

/* Whether writes to the descriptor go to the page cache and to where its position is. */
static bool is_plain(int file) {
    const int flags = (int)syscall(SYS_fcntl, file, F_GETFL);
    const int access = flags & O_ACCMODE;
    return flags >= 0 && (access == O_WRONLY || access == O_RDWR) &&
           !(flags & (O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_PATH));
}

/* Whether anybody holds a lock of fcntl(2), this process too: locks of open file descriptions
 * conflict with those of processes. */
static bool is_locked(int file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return syscall(SYS_fcntl, file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
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
    struct direct_file direct = {high_number(low), page, DEFAULT_ALIGNMENT};
    if (direct.descriptor < 0) return NONE;
    memset(&info, 0, sizeof info);
#ifdef STATX_DIOALIGN
    if (statx(direct.descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
        info.stx_mask & STATX_DIOALIGN && info.stx_dio_offset_align) {
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
    }
}

bool direct_ready(void) {
    own = getpid();
    return pthread_atfork(NULL, NULL, close_in_child) == 0;
}

struct direct_file direct_descriptor(int file) {
    struct stat info;
    if (file < 0 || file >= MOST_DESCRIPTORS || !in_own_process()) return NONE;
    const int state = __atomic_load_n(&files[file].state, __ATOMIC_ACQUIRE);
    if (state == BUSY || state == REFUSED) return NONE;
    if (!is_plain(file) || syscall(SYS_fstat, file, &info) != 0 || !S_ISREG(info.st_mode))
        return NONE;
    if (is_mapped(info.st_dev, info.st_ino)) return NONE;
    if (state == OPEN) {
        const bool same = files[file].device == info.st_dev && files[file].inode == info.st_ino;
        return same && is_second(file) ? files[file].direct : NONE;
    }
    int expected = UNKNOWN;
    if (is_locked(file) || !__atomic_compare_exchange_n(&files[file].state, &expected, BUSY, false,
                                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return NONE;
    const struct direct_file direct = opened(file);
    files[file].direct = direct;
    files[file].device = info.st_dev;
    files[file].inode = info.st_ino;
    __atomic_store_n(&files[file].state, direct.descriptor < 0 ? REFUSED : OPEN, __ATOMIC_RELEASE);
    return direct;
}

void direct_closed(int file) {
    if (file < 0 || file >= MOST_DESCRIPTORS || files[file].state == UNKNOWN || !in_own_process())
        return;
    const int state = __atomic_exchange_n(&files[file].state, UNKNOWN, __ATOMIC_ACQ_REL);
    if (state != OPEN) return;
    const int saved_errno = errno;
    /* If the number is another file's by now, closing ours could drop locks that the program has
     * by other descriptors. Then ours stays open. */
    if (is_file(file, files[file].device, files[file].inode) && is_second(file))
        syscall(SYS_close, files[file].direct.descriptor);
    errno = saved_errno;
}

void direct_closed_range(unsigned first, unsigned last) {
    for (unsigned i = first; i <= last && i < MOST_DESCRIPTORS; i++) direct_closed((int)i);
}

void direct_mapped(int file) {
    struct stat info;
    const int saved_errno = errno;
    if (syscall(SYS_fstat, file, &info) == 0 && S_ISREG(info.st_mode) &&
        !is_mapped(info.st_dev, info.st_ino)) {
        const unsigned at = __atomic_fetch_add(&mapped_count, 1, __ATOMIC_ACQ_REL);
        if (at < MOST_MAPPED) {
            mapped[at].device = info.st_dev;
            mapped[at].inode = info.st_ino;
        }
    }
    errno = saved_errno;
}
