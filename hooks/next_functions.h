/*
 * Finds the functions of the next allocator in the search order, usually libc's, for a preloaded
 * library that defines them itself. One file of such a library includes this header, or several
 * files that each define different functions.
 */
#ifndef PAGELENS_NEXT_FUNCTIONS_H
#define PAGELENS_NEXT_FUNCTIONS_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header"
#endif
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

/* In the static TLS block, where access never allocates. */
#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

/* A file that needs other functions defines this before it includes the header. */
#ifndef NEXT_FUNCTIONS
/* clang-format off */
#define NEXT_FUNCTIONS(DO) \
    DO(malloc) DO(calloc) DO(realloc) DO(aligned_alloc) DO(posix_memalign) DO(memalign) DO(valloc) \
    DO(pvalloc) DO(free) DO(malloc_usable_size) DO(mmap) DO(mmap64) DO(mremap)
/* clang-format on */
#endif

static struct {
#define DECLARE(name) __typeof__(name)* name;
    NEXT_FUNCTIONS(DECLARE)
#undef DECLARE
} real;

static int resolved; /* `real` is complete; atomic */
THREAD_LOCAL volatile sig_atomic_t resolving;

static void resolve(void) {
    const int saved_errno = errno;
    resolving = 1;
#define RESOLVE(name) real.name = __extension__(__typeof__(real.name)) dlsym(RTLD_NEXT, #name);
    NEXT_FUNCTIONS(RESOLVE)
#undef RESOLVE
    __atomic_store_n(&resolved, 1, __ATOMIC_RELEASE); /* other threads may store the same */
    resolving = 0;
    errno = saved_errno;
}

/* Whether `real` may be called. It may not while dlsym, called from here, allocates. */
static inline int usable(void) {
    if (__builtin_expect(__atomic_load_n(&resolved, __ATOMIC_ACQUIRE), 1)) return 1;
    if (resolving) return 0;
    resolve();
    return 1;
}

#endif
