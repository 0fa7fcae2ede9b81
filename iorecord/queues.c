/*
 * Operations that a program hands to the kernel in a queue, by libaio or liburing. They are
 * recorded when they are handed over: a program can read from memory what became of them, which
 * nobody sees. The calls that hand them over and that wait for them are records of their own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/log.h"
#include "iorecord/operation.h"

#define EXPORT __attribute__((visibility("default")))

/* Of the thread: the last operation that it handed over, for whose file the calls count. */
static _Thread_local __attribute__((tls_model("initial-exec"))) int last_descriptor = -1;

/* Records an operation that is handed over. Vectors have their memory in `count` parts. */
static void queued(enum record_kind kind, int descriptor, int64_t offset, uint64_t address,
                   uint64_t size, bool vector) {
    const struct iovec* const parts = (const struct iovec*)(uintptr_t)address;
    struct request request = {kind, descriptor, offset, size, parts, 0, 1};
    if (vector) {
        request.buffers = (uint32_t)size;
        request.address = size ? parts->iov_base : NULL;
        request.size = 0;
        for (uint64_t i = 0; i < size; i++) request.size += parts[i].iov_len;
    }
    const struct operation operation = operation_begin(descriptor);
    operation_end(&operation, &request, (int64_t)request.size);
    last_descriptor = descriptor;
}

/* Calls between begin and end of an operation that hands operations over or waits for them.
 * `wanted` is the number of them. */
#define IN_QUEUE(kind, wanted, call)                                                      \
    const uint64_t count_wanted = (uint64_t)(wanted);                                     \
    const struct operation operation = operation_begin(last_descriptor);                  \
    const struct request request = {kind, last_descriptor, -1, count_wanted, NULL, 0, 1}; \
    const int result = call;                                                              \
    operation_end_error(&operation, &request, -result);                                   \
    return result

/* --- libaio, whose functions are system calls that return a negative error number --- */

static void queue_block(const struct iocb* block) {
    static const struct {
        enum record_kind kind;
        bool vector;
    } of[] = {
        [IOCB_CMD_PREAD] = {KIND_QUEUED_READ, false},
        [IOCB_CMD_PWRITE] = {KIND_QUEUED_WRITE, false},
        [IOCB_CMD_FSYNC] = {KIND_QUEUED_SYNC, false},
        [IOCB_CMD_FDSYNC] = {KIND_QUEUED_SYNC, false},
        [IOCB_CMD_PREADV] = {KIND_QUEUED_READ, true},
        [IOCB_CMD_PWRITEV] = {KIND_QUEUED_WRITE, true},
    };
    const unsigned opcode = block->aio_lio_opcode;
    if (opcode >= sizeof of / sizeof *of || of[opcode].kind == KIND_NONE) return;
    queued(of[opcode].kind, (int)block->aio_fildes, block->aio_offset, block->aio_buf,
           block->aio_nbytes, of[opcode].vector);
}

static int status_of(long result) { return result < 0 ? -errno : (int)result; }

EXPORT int io_submit(aio_context_t context, long count, struct iocb** blocks);
EXPORT int io_submit(aio_context_t context, long count, struct iocb** blocks) {
    const int saved_errno = errno;
    for (long i = 0; i < count && log_is_open(); i++) queue_block(blocks[i]);
    errno = saved_errno;
    IN_QUEUE(KIND_SUBMIT, count, status_of(syscall(SYS_io_submit, context, count, blocks)));
}

EXPORT int io_getevents(aio_context_t context, long least, long most, struct io_event* events,
                        struct timespec* timeout);
EXPORT int io_getevents(aio_context_t context, long least, long most, struct io_event* events,
                        struct timespec* timeout) {
    IN_QUEUE(KIND_AWAIT, least,
             status_of(syscall(SYS_io_getevents, context, least, most, events, timeout)));
}

/* --- liburing --- */

/* The begin of its struct io_uring, which liburing.so.2 keeps in all its versions. */
struct io_uring {
    unsigned *taken, *given, *mask, *entries, *flags, *dropped, *array;
    const struct io_uring_sqe* filled;
    unsigned first, end; /* of what the program has filled in since it last handed over */
    size_t ring_bytes;
    void* ring;
    unsigned spare[4];
    char completions[88];
    unsigned setup; /* flags of io_uring_setup(2) */
};

_Static_assert(offsetof(struct io_uring, setup) == 192, "as in liburing.h on 64-bit systems");

static void queue_entry(const struct io_uring_sqe* entry) {
    static const struct {
        enum record_kind kind;
        bool vector;
    } of[] = {
        [IORING_OP_READ] = {KIND_QUEUED_READ, false},
        [IORING_OP_READ_FIXED] = {KIND_QUEUED_READ, false},
        [IORING_OP_READV] = {KIND_QUEUED_READ, true},
        [IORING_OP_WRITE] = {KIND_QUEUED_WRITE, false},
        [IORING_OP_WRITE_FIXED] = {KIND_QUEUED_WRITE, false},
        [IORING_OP_WRITEV] = {KIND_QUEUED_WRITE, true},
        [IORING_OP_FSYNC] = {KIND_QUEUED_SYNC, false},
    };
    if (entry->opcode >= sizeof of / sizeof *of || of[entry->opcode].kind == KIND_NONE) return;
    const bool listed = entry->flags & IOSQE_FIXED_FILE; /* then `fd` is no descriptor */
    queued(of[entry->opcode].kind, listed ? -1 : entry->fd, (int64_t)entry->off, entry->addr,
           entry->len, of[entry->opcode].vector);
}

static unsigned queue_ring(const struct io_uring* ring) {
    const int saved_errno = errno;
    const bool known = !(ring->setup & IORING_SETUP_SQE128); /* else entries are larger */
    for (unsigned at = ring->first; known && at != ring->end && log_is_open(); at++)
        queue_entry(&ring->filled[at & *ring->mask]);
    errno = saved_errno;
    return ring->end - ring->first;
}

/* Finds a function of liburing, also where a package of Python has loaded it for itself alone. */
static void* liburing(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    if (found) return found;
    void* library = dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) return NULL;
    found = dlsym(library, name);
    dlclose(library);
    return found;
}

#define ON_RING(name, kind, wanted, parameters, arguments)                        \
    EXPORT int name parameters;                                                   \
    EXPORT int name parameters {                                                  \
        static int(*next) parameters;                                             \
        if (next == NULL) next = __extension__(__typeof__(next)) liburing(#name); \
        if (next == NULL) return -ENOSYS;                                         \
        IN_QUEUE(kind, wanted, next arguments);                                   \
    }

ON_RING(io_uring_submit, KIND_SUBMIT, queue_ring(ring), (struct io_uring * ring), (ring))
ON_RING(io_uring_submit_and_wait, KIND_SUBMIT, queue_ring(ring),
        (struct io_uring * ring, unsigned least), (ring, least))
ON_RING(io_uring_submit_and_get_events, KIND_SUBMIT, queue_ring(ring), (struct io_uring * ring),
        (ring))
ON_RING(io_uring_submit_and_wait_timeout, KIND_SUBMIT, queue_ring(ring),
        (struct io_uring * ring, void** done, unsigned least, void* timeout, void* signals),
        (ring, done, least, timeout, signals))
ON_RING(__io_uring_get_cqe, KIND_AWAIT, least,
        (struct io_uring * ring, void** done, unsigned given, unsigned least, void* signals),
        (ring, done, given, least, signals))
