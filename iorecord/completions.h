/* What became of operations in a ring of io_uring. */
#ifndef PAGELENS_IORECORD_COMPLETIONS_H
#define PAGELENS_IORECORD_COMPLETIONS_H

#include <linux/io_uring.h>
#include <stddef.h>

/* liburing's struct io_uring, as far as liburing.so.2 keeps it in all its versions. */
struct io_uring {
    unsigned *taken, *given, *mask, *entries, *sq_flags, *dropped, *array;
    const struct io_uring_sqe* filled;
    unsigned first, end; /* of what the program has filled in since it last handed over */
    size_t ring_bytes;
    void* ring;
    unsigned spare[4];
    struct {
        unsigned *head, *tail, *mask, *entries, *flags, *overflow;
        const struct io_uring_cqe* ended;
        size_t ring_bytes;
        void* ring;
        unsigned spare[4];
    } completions;
    unsigned setup; /* flags of io_uring_setup(2) */
};

_Static_assert(offsetof(struct io_uring, setup) == 192, "as in liburing.h on 64-bit systems");

/* Records the completions that have come since the last call. Programs take them from memory by
 * inlined code, so the functions that hand operations over and wait for them look each time. */
void completions_seen(const struct io_uring* ring);

/* Does the same, and forgets the ring. */
void completions_end(const struct io_uring* ring);

#endif
