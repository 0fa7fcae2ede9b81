/*
 * The process is in one region at a time. The thread that opens a region when none is open owns the
 * regions until it has closed its last one, and the innermost of its regions counts. Markers of
 * other threads are ignored meanwhile: they mark either the same work, or work of their own, and
 * the fast memory does not suffice for both. A thread that ends within a region leaves none open.
 *
 * Outside of all regions objects stay where the last region put them. The program mostly does
 * little between the end of one region and the beginning of the next, which is not worth two moves.
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

enum { MOST_OPEN = 64 /* nested regions; of more, the outermost are forgotten */, MOST_NAME = 255 };

struct region {
    uint64_t name; /* a hash, since most names are not in the plan */
    uint32_t phase;
};
static struct region open_regions[MOST_OPEN];
static size_t depth;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool marking __attribute__((tls_model("initial-exec")));

/* Held by the thread whose regions are open. It is a robust mutex because the kernel then tells
 * when its owner has ended. A thread's number or address would not: new threads get them again. */
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

/* The FNV-1a hash. */
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

/* Ends a region and those that were begun within it. The end of a region that was not begun is
 * ignored. */
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

/* The function that the program's markers call. */
static void marked(const struct pagelens_record* record) {
    if (marking || inside) return; /* a signal handler has interrupted the library */
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

/* The child has only the thread that forked, so if another thread owned the regions, none is open.
 * That thread may fork in a signal handler that interrupted it in this file: then nothing is
 * changed here. */
void regions_forked(void) {
    if (marking) return;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    make_ownership(); /* anew: the mutex names its owner by a thread number of the parent */
    if (owning)
        take_ownership();
    else
        depth = 0;
}
