/* Which files are written as the program says, because direct writes could harm them. */
#ifndef PAGELENS_IOAPPLY_LEFT_ALONE_H
#define PAGELENS_IOAPPLY_LEFT_ALONE_H

#include <stdbool.h>
#include <sys/types.h>

/* Leaves a file alone from now on. */
void leave_alone(dev_t device, ino_t inode);
bool is_left_alone(dev_t device, ino_t inode);

/* Whether anybody holds a lock of fcntl(2) on the file, this process too. */
bool is_locked(int file);

/* Whether a buffer that changes during a direct write would get a wrong checksum. The page cache
 * gives the kernel a copy that stays as it is; a direct write reads the program's own memory. */
bool is_checksummed(int file);

#endif
