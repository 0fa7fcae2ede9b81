/*
 * The process is in one region at a time: the innermost one of the thread that opened a region when
 * none was open. What other threads mark until it has closed its last one counts for nothing: they
 * mark the same work, or work of their own that cannot all have the fast memory. A thread that ends
 * within a region leaves none open.
 *
 * Outside of all regions everything stays as the last one has left it: between the end of one and
 * the beginning of the next there is mostly next to nothing, for which nobody wants to move twice.
 */
#define _GNU_SOURCE
#include "preload/regions.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hooks/pagelens.h"
#include "preload/fork_gate.h"
#include "preload/moves.h"
#include "preload/plan.h"
#include "preload/system.h"

enum {
    MOST_OPEN = 64 /* within each other: of more the outermost are forgotten */,
    MOST_NAME = 255
};

struct region {
    uint64_t name; /* a hash: most names are not the plan's */
    uint32_t phase;
};
static struct region open_regions[MOST_OPEN];
static size_t depth;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool marking __attribute__((tls_model("initial-exec")));

/* Held by the thread whose regions are open. The kernel says of a robust mutex that who held it has
 * ended; numbers and addresses of threads are given to new ones. */
static pthread_mutex_t ownership;
static _Thread_local bool owning __attribute__((tls_model("initial-exec")));

static void make_ownership(void) {
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&ownership, &robust);
    pthread_mutexattr_destroy(&robust);
}

static bool take_ownership(void) {
    const int why = pthread_mutex_trylock(&ownership);
    if (why == EOWNERDEAD) {
        pthread_mutex_consistent(&ownership);
        depth = 0;
    }
    return why == 0 || why == EOWNERDEAD;
}

/* FNV-1a. */
static uint64_t hash_of(const char* name, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static struct region named(const struct pagelens_record* record) {
    const char* name = (const char*)(uintptr_t)record->address;
    const size_t length = record->size < MOST_NAME ? record->size : MOST_NAME;
    return (struct region){hash_of(name, length), plan_phase(name, length)};
}

static void begin(struct region region) {
    owning = owning || take_ownership();
    if (!owning) return;
    if (depth == MOST_OPEN) memmove(open_regions, open_regions + 1, --depth * sizeof *open_regions);
    open_regions[depth++] = region;
}

/* With it end those that were begun within it; one that was not begun is passed over. */
static void end(struct region region) {
    if (!owning) return;
    size_t at = depth;
    while (at > 0 && open_regions[at - 1].name != region.name) at--;
    if (at == 0) return;
    depth = at - 1;
    if (depth > 0) return;
    owning = false;
    pthread_mutex_unlock(&ownership);
}

/* What a marker of the program calls. */
static void marked(const struct pagelens_record* record) {
    if (marking || inside) return; /* a handler of signals that has interrupted us */
    const int saved_errno = errno, state = cancelling_off();
    const struct region region = named(record);
    marking = true;
    pthread_mutex_lock(&mutex);
    (record->kind == PAGELENS_REGION_BEGIN ? begin : end)(region);
    if (depth > 0) moves_to(open_regions[depth - 1].phase);
    pthread_mutex_unlock(&mutex);
    marking = false;
    cancelling_back(state);
    errno = saved_errno;
}

void regions_begin(void) {
    if (plan_phases() == 0) return;
    make_ownership();
    pagelens_hook_function* volatile* slot;
    for (size_t i = 0; (slot = plan_hook(i)) != NULL; i++)
        if (*slot == NULL) *slot = marked;
}

/* The thread that forks is the child's only one: if regions were another's, none is open. It may
 * have been interrupted here, and fork in a handler. */
void regions_forked(void) {
    if (marking) return;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    make_ownership(); /* it was another thread's, by its number */
    if (owning)
        take_ownership();
    else
        depth = 0;
}
