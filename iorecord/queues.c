/*
 * Records operations that a program hands to the kernel in a queue, by libaio or liburing. They are
 * recorded when they are handed over. What became of them is a record of its own (completions.h),
 * as are the calls that hand them over and that wait for them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "hooks/calling_library.h"
#include "iorecord/callers.h"
#include "iorecord/completions.h"
#include "iorecord/files.h"
#include "iorecord/log.h"
#include "iorecord/operation.h"

#define EXPORT __attribute__((visibility("default")))
#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

/* The descriptor of the last operation that the thread handed over. The calls that hand over and
 * wait count for its file. */
THREAD_LOCAL int last_descriptor = -1;

/* Returns the request of an operation that is handed over. Vectors have `size` parts of memory. */
static struct request asked(enum record_kind kind, int descriptor, int64_t offset, uint64_t address,
                            uint64_t size, bool vector) {
    const struct iovec* const parts = (const struct iovec*)(uintptr_t)address;
    struct request request = {kind, descriptor, offset, size, parts, 0, 1};
    if (vector) {
        const uint64_t count = parts && size <= IOV_MAX ? size : 0; /* the kernel refuses others */
        request.buffers = (uint32_t)count;
        request.address = count ? parts->iov_base : NULL;
        request.size = 0;
        for (uint64_t i = 0; i < count; i++) request.size += parts[i].iov_len;
    }
    return request;
}

/* `queue` and `key` are those of its completion. */
static void record_queued(const struct request* request, uint64_t begin_ns, const void* queue,
                          uint64_t key) {
    file_seen(request->descriptor);
    operation_queued(request, begin_ns, queue, key);
    last_descriptor = request->descriptor;
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

enum { MOST_AT_ONCE = 64 }; /* operations that are handed over by one system call */

static struct request asked_of(const struct iocb* block) {
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
    if (opcode >= sizeof of / sizeof *of || of[opcode].kind == KIND_NONE)
        return (struct request){.kind = KIND_NONE};
    return asked(of[opcode].kind, (int)block->aio_fildes, block->aio_offset, block->aio_buf,
                 block->aio_nbytes, of[opcode].vector);
}

static const void* as_queue(aio_context_t context) { return (const void*)(uintptr_t)context; }

static int status_of(long result) { return result < 0 ? -errno : (int)result; }

/* Another thread may free the blocks as soon as they are handed over, so what they ask for is kept.
 * The kernel may take only the first ones, and the program then hands over the others again. */
static int hand_over(aio_context_t context, long count, struct iocb** blocks) {
    struct request kept[MOST_AT_ONCE];
    uint64_t keys[MOST_AT_ONCE];
    const uint64_t begin_ns = wall_clock_ns();
    for (long i = 0; i < count; i++) {
        kept[i] = asked_of(blocks[i]);
        keys[i] = (uint64_t)(uintptr_t)blocks[i];
        if (kept[i].kind != KIND_NONE) file_seen(kept[i].descriptor); /* as it is before */
    }
    const int result = status_of(syscall(SYS_io_submit, context, count, blocks));
    for (int i = 0; i < result; i++)
        if (kept[i].kind != KIND_NONE)
            record_queued(&kept[i], begin_ns, as_queue(context), keys[i]);
    return result;
}

/* Many blocks take several system calls. As in one, the first refusal ends them, and it is an error
 * only if nothing was taken before. */
static int hand_over_all(aio_context_t context, long count, struct iocb** blocks) {
    if (!log_is_open() || count <= 0)
        return status_of(syscall(SYS_io_submit, context, count, blocks));
    long done = 0;
    while (done < count) {
        const long some = count - done < MOST_AT_ONCE ? count - done : MOST_AT_ONCE;
        const int taken = hand_over(context, some, blocks + done);
        if (taken < 0 && done == 0) return taken;
        if (taken > 0) done += taken;
        if (taken < some) break;
    }
    return (int)done;
}

EXPORT int io_submit(aio_context_t context, long count, struct iocb** blocks);
EXPORT int io_submit(aio_context_t context, long count, struct iocb** blocks) {
    const struct operation operation = operation_begin(last_descriptor);
    const int result = hand_over_all(context, count, blocks);
    const struct request request = {KIND_SUBMIT, last_descriptor, -1, (uint64_t)count, NULL, 0, 1};
    operation_end_error(&operation, &request, -result);
    return result;
}

static int waited(aio_context_t context, const struct io_event* events, long result) {
    const int status = status_of(result);
    for (int i = 0; i < status; i++)
        operation_done(as_queue(context), events[i].obj, events[i].res);
    return status;
}

EXPORT int io_getevents(aio_context_t context, long least, long most, struct io_event* events,
                        struct timespec* timeout);
EXPORT int io_getevents(aio_context_t context, long least, long most, struct io_event* events,
                        struct timespec* timeout) {
    IN_QUEUE(
        KIND_AWAIT, least,
        waited(context, events, syscall(SYS_io_getevents, context, least, most, events, timeout)));
}

/* --- liburing --- */

enum {                          /* of rings; newer than some kernel headers */
       LARGE_ENTRIES = 1 << 10, /* IORING_SETUP_SQE128 */
       MIXED_ENTRIES = 1 << 19, /* IORING_SETUP_SQE_MIXED */
};

static void queue_entry(const struct io_uring* ring, const struct io_uring_sqe* entry,
                        uint64_t begin_ns) {
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
    const struct request request =
        asked(of[entry->opcode].kind, listed ? -1 : entry->fd, (int64_t)entry->off, entry->addr,
              entry->len, of[entry->opcode].vector);
    record_queued(&request, begin_ns, ring, entry->user_data);
}

static unsigned queue_ring(const struct io_uring* ring) {
    const int saved_errno = errno;
    const unsigned step = ring->setup & LARGE_ENTRIES ? 2 : 1;
    const bool known = !(ring->setup & MIXED_ENTRIES); /* entries of two sizes, in any order */
    const uint64_t begin_ns = wall_clock_ns();
    completions_seen(ring); /* those of before, so that a new ring is known from now on */
    for (unsigned at = ring->first; at != ring->end && known && log_is_open(); at++)
        queue_entry(ring, &ring->filled[(at & *ring->mask) * step], begin_ns);
    errno = saved_errno;
    return ring->end - ring->first;
}

static int looked_after(const struct io_uring* ring, int result) {
    completions_seen(ring);
    return result;
}

#define CODE(function) ((const void*)(uintptr_t)(function))

/* The caller's liburing may be its own: plug-ins have it linked into them. */
#define ON_RING(name, kind, wanted, parameters, arguments)                 \
    EXPORT int name parameters;                                            \
    EXPORT int name parameters {                                           \
        int(*next) parameters = __extension__(__typeof__(next))            \
            next_function(#name, __builtin_return_address(0), CODE(name)); \
        if (next == NULL) return -ENOSYS;                                  \
        IN_QUEUE(kind, wanted, looked_after(ring, next arguments));        \
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

ON_RING(io_uring_wait_cqes, KIND_AWAIT, least,
        (struct io_uring * ring, void** done, unsigned least, void* timeout, void* signals),
        (ring, done, least, timeout, signals))
ON_RING(io_uring_wait_cqe_timeout, KIND_AWAIT, 1,
        (struct io_uring * ring, void** done, void* timeout), (ring, done, timeout))

EXPORT void io_uring_queue_exit(struct io_uring* ring);
EXPORT void io_uring_queue_exit(struct io_uring* ring) {
    void (*next)(struct io_uring*) = __extension__(__typeof__(next)) next_function(
        "io_uring_queue_exit", __builtin_return_address(0), CODE(io_uring_queue_exit));
    completions_end(ring);
    if (next) next(ring);
}
