/* Stands for libraries that a program calls: MPI-IO and HDF5, whose functions write to a file, and
 * libaio and liburing. Each copy that is compiled with another LETTER writes another letter. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef LETTER
#define LETTER 'm'
#endif

/* As in all libraries whose functions call each other: MPI-IO beneath HDF5. */
int MPI_File_write_at(long file, long offset, const void* buffer, int count, long type,
                      void* status) {
    (void)buffer, (void)type, (void)status;
    char letters[64];
    memset(letters, LETTER, sizeof letters);
    return (int)pwrite((int)file, letters, (size_t)count, offset);
}

int H5Dwrite(long set, long memory, long from, long to, long list, const void* buffer) {
    (void)memory, (void)from, (void)list;
    return MPI_File_write_at(set, to, buffer, 8, 0, NULL);
}

int io_submit(void* context, long count, void** blocks) {
    const long result = syscall(SYS_io_submit, context, count, blocks);
    return (int)(result < 0 ? -errno : result);
}

int io_getevents(void* context, long least, long most, void* events, void* timeout) {
    const long result = syscall(SYS_io_getevents, context, least, most, events, timeout);
    return (int)(result < 0 ? -errno : result);
}

/* A function that reports an error by a jump out of it. */
int MPI_File_set_size(long file, long place) {
    pwrite((int)file, "in", 2, 0);
    longjmp(*(jmp_buf*)place, 1);
}

struct io_uring {
    unsigned *taken, *given, *mask, *entries, *flags, *dropped, *array;
    struct io_uring_sqe* filled;
    unsigned first, end;
    char rest[32];
    unsigned *head, *tail, *ended_mask, *ended_entries, *ended_flags, *overflow;
    struct io_uring_cqe* ended;
    char more[32];
    unsigned setup;
};

/* Does what the entries say, one after another. */
int io_uring_submit(struct io_uring* ring) {
    int count = 0;
    for (; ring->first != ring->end; ring->first++, count++) {
        const struct io_uring_sqe* entry = &ring->filled[ring->first & *ring->mask];
        long result = 0;
        if (entry->opcode == IORING_OP_WRITE)
            result = pwrite(entry->fd, (void*)entry->addr, entry->len, (off_t)entry->off);
        if (ring->tail == NULL) continue;
        struct io_uring_cqe* end = &ring->ended[*ring->tail & *ring->ended_mask];
        end->user_data = entry->user_data;
        end->res = (int)(result < 0 ? -errno : result);
        ++*ring->tail;
    }
    return count;
}
