/* Calls libraries as programs do. Usage: io_libraries WAY; it writes the file `file`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int H5Dwrite(long, long, long, long, long, const void*);
int MPI_File_write_at(long, long, const void*, int, long, void*);
int io_submit(aio_context_t, long, struct iocb**);
int io_getevents(aio_context_t, long, long, struct io_event*, void*);
int io_uring_submit(void*);
int MPI_File_set_size(long, void*);

struct ring { /* liburing's struct io_uring */
    unsigned *taken, *given, *mask, *entries, *sq_flags, *dropped, *array;
    struct io_uring_sqe* filled;
    unsigned first, end;
    char rest[32];
    unsigned *head, *tail, *ended_mask, *ended_entries, *ended_flags, *overflow;
    struct io_uring_cqe* ended;
    char more[32];
    unsigned setup; /* flags of io_uring_setup(2) */
};

static int file;

static void linked(void) {
    H5Dwrite(file, 0, 0, 0, 0, NULL);
    MPI_File_write_at(file, 8, NULL, 4, 0, NULL);
    pwrite(file, "own", 3, 12);
}

static void queues(void) {
    static char bytes[8192] = "queued";
    struct iovec parts[2] = {{bytes, 100}, {bytes, 28}};
    aio_context_t context = 0;
    struct iocb blocks[2] = {{.aio_lio_opcode = IOCB_CMD_PWRITE,
                              .aio_fildes = (unsigned)file,
                              .aio_buf = (unsigned long)bytes,
                              .aio_nbytes = 4096},
                             {.aio_lio_opcode = IOCB_CMD_PWRITEV,
                              .aio_fildes = (unsigned)file,
                              .aio_buf = (unsigned long)parts,
                              .aio_nbytes = 2,
                              .aio_offset = 4096}};
    struct iocb* list[2] = {&blocks[0], &blocks[1]};
    syscall(SYS_io_setup, 4, &context);
    if (io_submit(context, 2, list) != 2) abort();
    blocks[1].aio_fildes = 12345; /* refused, so only the first one is taken */
    if (io_submit(context, 2, list) != 1 || io_submit(context, 1, list + 1) >= 0) abort();
    syscall(SYS_io_destroy, context); /* waits for them */
    unsigned mask = 3;
    struct io_uring_sqe entries[4] = {
        [0] = {.opcode = IORING_OP_WRITE,
               .fd = file,
               .addr = (unsigned long)bytes,
               .len = 8192,
               .off = 8192},
        [1] = {.opcode = IORING_OP_FSYNC, .fd = file},
        [3] = {.opcode = IORING_OP_READ, .flags = IOSQE_FIXED_FILE, .fd = 0, .len = 10, .off = 5}};
    struct ring ring = {.mask = &mask, .filled = entries, .first = 3, .end = 6};
    printf("%d handed over\n", io_uring_submit(&ring));
}

/* More blocks than are handed over at once, of which the 67th is refused, and a read at the end. */
static void results(void) {
    static char bytes[8192];
    static struct iocb blocks[70];
    static struct io_event events[70];
    struct iocb* list[70];
    aio_context_t context = 0;
    for (int i = 0; i < 70; i++) {
        blocks[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                                  .aio_fildes = i == 66 ? 12345 : (unsigned)file,
                                  .aio_buf = (unsigned long)bytes,
                                  .aio_nbytes = 10,
                                  .aio_offset = 10 * i};
        list[i] = &blocks[i];
    }
    syscall(SYS_io_setup, 128, &context);
    if (io_submit(context, 70, list) != 66) abort();
    if (io_getevents(context, 66, 70, events, NULL) != 66) abort();
    blocks[0].aio_lio_opcode = IOCB_CMD_PREAD;
    blocks[0].aio_offset = 600;
    blocks[0].aio_nbytes = 4096;
    if (io_submit(context, 1, list) != 1 || io_getevents(context, 1, 1, events, NULL) != 1) abort();
    syscall(SYS_io_destroy, context);
    /* The first two have one key. More have ended than the ring has room for. */
    unsigned mask = 7, ended_mask = 3, tail = 0xfffffffe, head = tail, ended_entries = 4;
    struct io_uring_cqe ended[4];
    struct io_uring_sqe entries[8] = {0};
    for (int i = 0; i < 8; i++)
        entries[i] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE,
                                           .fd = i == 2 ? 12345 : file,
                                           .addr = (unsigned long)bytes,
                                           .len = 100 + (unsigned)i,
                                           .user_data = i < 2 ? 7 : 10 + (unsigned)i};
    struct ring ring = {.mask = &mask,
                        .filled = entries,
                        .end = 4,
                        .head = &head,
                        .tail = &tail,
                        .ended_mask = &ended_mask,
                        .ended_entries = &ended_entries,
                        .ended = ended};
    io_uring_submit(&ring);
    ring.end = 5;
    io_uring_submit(&ring);
    entries[0].user_data = 20;
    entries[1].user_data = 21;
    ring.end = 10;
    io_uring_submit(&ring);
}

/* Writes in the function, and again when it was left by a jump. */
static void jump(void) {
    jmp_buf place;
    if (setjmp(place) == 0) MPI_File_set_size(file, &place);
    pwrite(file, "out", 3, 2);
}

/* A ring whose entries have 128 bytes. What their second halves hold are no operations. */
static void large(void) {
    unsigned mask = 1;
    struct io_uring_sqe entries[4] = {
        [0] = {.opcode = IORING_OP_WRITE, .fd = file, .len = 100},
        [1] = {.opcode = IORING_OP_READV, .fd = file, .addr = 8, .len = 5},
        [2] = {.opcode = IORING_OP_FSYNC, .fd = file},
        [3] = {.opcode = IORING_OP_READV, .fd = file, .addr = 8, .len = 5}};
    struct ring ring = {.mask = &mask, .filled = entries, .end = 2, .setup = 1 << 10};
    io_uring_submit(&ring);
}

static void mapped(void) {
    ftruncate(file, 1 << 20);
    char* memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(memory, 'm', 1 << 20);
}

int main(int count, char** words) {
    if (count < 2) return 2;
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!strcmp(words[1], "linked")) linked();
    if (!strcmp(words[1], "queues")) queues();
    if (!strcmp(words[1], "results")) results();
    if (!strcmp(words[1], "jump")) jump();
    if (!strcmp(words[1], "large")) large();
    if (!strcmp(words[1], "mapped")) mapped();
    return 0;
}
