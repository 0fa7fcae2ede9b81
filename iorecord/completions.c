/*
 * A completion stays in the ring's memory until the kernel needs its place again, also after the
 * program has taken it. So looking at every call finds them all, unless more of them than the ring
 * holds came between two calls. Those are not recorded, and their results stay unknown.
 */
#define _GNU_SOURCE
#include "iorecord/completions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "iorecord/log.h"
#include "iorecord/operation.h"

enum { MOST_RINGS = 64 };           /* the results of further ones stay unknown */
enum {                              /* of rings; newer than some kernel headers */
       LARGE_COMPLETIONS = 1 << 11, /* IORING_SETUP_CQE32 */
       MIXED_COMPLETIONS = 1 << 18, /* IORING_SETUP_CQE_MIXED */
};

static struct {
    const struct io_uring* ring; /* atomic */
    const void* memory;          /* another ring can get the address of one that is gone */
    unsigned seen;               /* atomic; completions before this one were looked at */
} rings[MOST_RINGS];

/* Returns the number of the ring, or -1. */
static int number_of(const struct io_uring* ring) {
    for (int i = 0; i < MOST_RINGS; i++)
        if (__atomic_load_n(&rings[i].ring, __ATOMIC_ACQUIRE) == ring) return i;
    return -1;
}

static int new_number(const struct io_uring* ring) {
    for (int i = 0; i < MOST_RINGS; i++) {
        const struct io_uring* none = NULL;
        if (__atomic_compare_exchange_n(&rings[i].ring, &none, ring, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return i;
    }
    return -1;
}

/* Copies the completion, because the kernel may replace it at any time. */
static void record_one(const struct io_uring* ring, unsigned at) {
    const unsigned step = ring->setup & LARGE_COMPLETIONS ? 2 : 1;
    const struct io_uring_cqe* const place =
        &ring->completions.ended[(size_t)(at & *ring->completions.mask) * step];
    const uint64_t key = place->user_data;
    const int32_t result = place->res;
    const unsigned tail = __atomic_load_n(ring->completions.tail, __ATOMIC_ACQUIRE);
    if (tail - at <= *ring->completions.entries) operation_done(ring, key, result);
}

void completions_seen(const struct io_uring* ring) {
    if (ring->completions.tail == NULL || ring->setup & MIXED_COMPLETIONS || !log_is_open()) return;
    const unsigned tail = __atomic_load_n(ring->completions.tail, __ATOMIC_ACQUIRE);
    const int known = number_of(ring), number = known < 0 ? new_number(ring) : known;
    if (number < 0) return;
    if (known < 0 || rings[number].memory != ring->completions.ended) {
        rings[number].memory = ring->completions.ended;
        __atomic_store_n(&rings[number].seen, tail, __ATOMIC_RELEASE);
        return;
    }
    const int saved_errno = errno;
    /* Of several threads, each completion is recorded by one. */
    unsigned seen = __atomic_load_n(&rings[number].seen, __ATOMIC_ACQUIRE);
    while ((int)(tail - seen) > 0 &&
           !__atomic_compare_exchange_n(&rings[number].seen, &seen, tail, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
    }
    const unsigned entries = *ring->completions.entries;
    if ((int)(tail - seen) > 0 && tail - seen > entries) seen = tail - entries;
    for (; (int)(tail - seen) > 0; seen++) record_one(ring, seen);
    errno = saved_errno;
}

void completions_end(const struct io_uring* ring) {
    completions_seen(ring);
    const int number = number_of(ring);
    if (number >= 0) __atomic_store_n(&rings[number].ring, NULL, __ATOMIC_RELEASE);
}
