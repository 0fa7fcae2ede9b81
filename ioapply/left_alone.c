#define _GNU_SOURCE
#include "ioapply/left_alone.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_FILES = 64 }; /* that are remembered; beyond this number all files are left alone */

static struct {
    dev_t device;
    ino_t inode;
} files[MOST_FILES];
static unsigned file_count; /* atomic; may exceed MOST_FILES */

/* The magic numbers of statfs(2): linux/magic.h, and OpenZFS's own. An overlay does not say which
 * file system is beneath it. SMB signs what it sends. */
static const uint32_t CHECKSUMMED[] = {
    0x9123683E, /* btrfs */
    0xCA451A4E, /* bcachefs */
    0x2FC12FC1, /* ZFS */
    0x794C7630, /* overlay */
    0xFF534D42, /* cifs */
    0xFE534D42, /* smb2 */
};

bool is_left_alone(dev_t device, ino_t inode) {
    const unsigned count = __atomic_load_n(&file_count, __ATOMIC_SEQ_CST);
    if (count > MOST_FILES) return true;
    for (unsigned i = 0; i < count; i++)
        if (files[i].device == device && files[i].inode == inode) return true;
    return false;
}

void leave_alone(dev_t device, ino_t inode) {
    if (is_left_alone(device, inode)) return;
    const unsigned at = __atomic_fetch_add(&file_count, 1, __ATOMIC_SEQ_CST);
    if (at >= MOST_FILES) return;
    files[at].device = device;
    files[at].inode = inode;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* A lock of an open file description conflicts with every lock of a process, this one's too. */
bool is_locked(int file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return syscall(SYS_fcntl, file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Disks with checksums of their own (T10 PI, dm-integrity) say that pages must stay stable. */
static bool disk_checksums(dev_t device) {
    char path[96], told = '0';
    static const char* const AT[] = {"", "../"}; /* a partition has its disk's queue */
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%squeue/stable_writes", major(device),
                 minor(device), AT[i]);
        const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        const bool whole = syscall(SYS_read, file, &told, 1) == 1;
        syscall(SYS_close, file);
        return !whole || told != '0';
    }
    return false;
}

bool is_checksummed(int file) {
    struct statfs system;
    struct stat info;
    if (fstatfs(file, &system) != 0 || syscall(SYS_fstat, file, &info) != 0) return true;
    for (size_t i = 0; i < sizeof CHECKSUMMED / sizeof *CHECKSUMMED; i++)
        if ((uint32_t)system.f_type == CHECKSUMMED[i]) return true;
    return disk_checksums(info.st_dev);
}
