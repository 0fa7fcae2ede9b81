/* One operation from its begin to its end, timed by the wall clock and the thread's processor
 * clock. */
#ifndef PAGELENS_IORECORD_OPERATION_H
#define PAGELENS_IORECORD_OPERATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iorecord/record.h"

struct operation {
    uint64_t wall_ns, cpu_ns; /* when it began */
    bool recorded;
};

/* The arguments of an operation. */
struct request {
    enum record_kind kind;
    int descriptor;
    int64_t offset; /* -1: at the position of the file */
    uint64_t size;
    const void* address;
    uint32_t flags, buffers;
};

/* Begins an operation on an open descriptor. */
struct operation operation_begin(int descriptor);

/* Begins an operation that changes which descriptors exist. It is not recorded in the child of a
 * vfork, which has descriptors of its own, but its parent's memory. */
struct operation table_begin(void);

/* CLOCK_MONOTONIC. */
uint64_t wall_clock_ns(void);

/* Records an operation that was handed over to `queue` at that time. Its completion there has the
 * `key`. */
void operation_queued(const struct request* request, uint64_t begin_ns, const void* queue,
                      uint64_t key);

/* Records that an operation of the queue was seen to have ended. */
void operation_done(const void* queue, uint64_t key, int64_t result);

/* Records the operation and keeps errno. `result` is what the call returned, with -1 for errno. */
void operation_end(const struct operation* operation, const struct request* request,
                   int64_t result);

/* Does the same for a call that returns an error number. */
void operation_end_error(const struct operation* operation, const struct request* request,
                         int error);

#endif
