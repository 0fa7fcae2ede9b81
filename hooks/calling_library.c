/*
 * A process can have several copies of a library: Python's packages bring their own, and Debian has
 * an HDF5 for each MPI. The caller must get the one that it would get without this library. So the
 * function is looked up among the libraries that its caller was linked with, then in the order of
 * the whole program, and at last in any library. The caller is not known if it ended by the call
 * (a tail call): then the code to which the function returns counts as the caller.
 */
#define _GNU_SOURCE
#include "hooks/calling_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Calls whose functions a thread remembers. One place of a program can ask for two functions, as a
 * collective of MPI does that also asks for the size of its communicator. */
enum { MOST_PLACES = 32, MOST_OF_PLACE = 2 };

struct known {
    const void *from, *wrapper, *inside; /* at the last call */
    void* next;
    unsigned long long unloaded; /* libraries by then */
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    const void* inside; /* the innermost function that was called here */
    struct known known[MOST_PLACES][MOST_OF_PLACE];
    /* A handler of a signal may come here while this thread is here. */
    volatile sig_atomic_t is_writing;
    volatile unsigned long changes;
} own;

const void* enter_function(const void* next) {
    const void* const outer = own.inside;
    own.inside = next;
    return outer;
}

/* Looks for the function in a library, and in those that it was linked with. */
static void* found_from(const char* path, const char* name, const void* not_this) {
    if (!*path) return NULL; /* the program itself, whose order begins with this library */
    void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) return NULL;
    void* found = dlsym(library, name);
    dlclose(library);
    return found == not_this ? NULL : found;
}

static const struct link_map* library_at(const void* code) {
    Dl_info info;
    struct link_map* map = NULL;
    return code && dladdr1(code, &info, (void**)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

struct place {
    size_t before;   /* libraries that come before it */
    char path[1024]; /* on the stack of a thread of the program; a longer one is passed over */
};

static int copy_path(struct dl_phdr_info* info, size_t size, void* wanted) {
    (void)size;
    struct place* const place = wanted;
    if (place->before-- > 0) return 0;
    snprintf(place->path, sizeof place->path, "%s", info->dlpi_name);
    return 1;
}

/* Looks in every library but `here`. Another thread may unload one meanwhile, so only copies of
 * paths are kept. */
static void* found_anywhere(const char* name, const struct link_map* here, const void* not_this) {
    struct place place;
    for (size_t at = 0; place.before = at, dl_iterate_phdr(copy_path, &place); at++) {
        if (here && strcmp(place.path, here->l_name) == 0) continue;
        void* found = found_from(place.path, name, not_this);
        if (found) return found;
    }
    return NULL;
}

static void* look_for(const char* name, const void* from, const void* wrapper) {
    const struct link_map* const here = library_at(wrapper);
    const struct link_map* caller = library_at(from);
    /* After a tail call of a function that was called here, the return address is here. */
    if (caller == here) caller = library_at(own.inside);
    void* found = caller ? found_from(caller->l_name, name, wrapper) : NULL;
    if (found == NULL) found = dlsym(RTLD_NEXT, name);
    return found ? found : found_anywhere(name, here, wrapper);
}

static int first_library(struct dl_phdr_info* info, size_t size, void* unloaded) {
    (void)size;
    *(unsigned long long*)unloaded = info->dlpi_subs;
    return 1; /* the count is the same in all */
}

/* Another library may get the addresses of one that is gone. */
static unsigned long long libraries_unloaded(void) {
    unsigned long long unloaded = 0;
    dl_iterate_phdr(first_library, &unloaded);
    return unloaded;
}

static struct known* of_place(const void* from) {
    return own.known[((uintptr_t)from >> 2) % MOST_PLACES];
}

/* Fills in the function that a call like this one found, if one is remembered. */
static bool remembered(struct known* call) {
    const struct known* const known = of_place(call->from);
    const unsigned long changes = own.changes;
    if (own.is_writing) return false;
    bool is_known = false;
    for (int at = 0; at < MOST_OF_PLACE; at++) {
        if (known[at].from != call->from || known[at].wrapper != call->wrapper) continue;
        if (known[at].inside != call->inside || known[at].unloaded != call->unloaded) continue;
        call->next = known[at].next;
        is_known = true;
    }
    atomic_signal_fence(memory_order_seq_cst);
    return is_known && own.changes == changes;
}

static void remember(const struct known* call) {
    if (own.is_writing) return;
    own.is_writing = 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct known* const known = of_place(call->from);
    memmove(known + 1, known, (MOST_OF_PLACE - 1) * sizeof *known);
    known[0] = *call;
    own.changes = own.changes + 1;
    atomic_signal_fence(memory_order_seq_cst);
    own.is_writing = 0;
}

void* next_function(const char* name, const void* from, const void* wrapper) {
    struct known call = {from, wrapper, own.inside, NULL, libraries_unloaded()};
    if (remembered(&call)) return call.next;
    const int saved_errno = errno;
    call.next = look_for(name, from, wrapper);
    remember(&call);
    errno = saved_errno;
    return call.next;
}
