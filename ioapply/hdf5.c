/*
 * Properties of HDF5 for each file that a program makes or opens: at which addresses of a file its
 * objects begin (H5Pset_alignment), and how large the cache of chunks of each data set is
 * (H5Pset_cache). Both are properties of the access to a file. They change where in a file data lie
 * and when they are written, and not what a reader finds. The program's own list of properties
 * stays as it is, because the file is opened with a copy. Where the program itself has set a
 * property, or anything fails, the file is opened as the program said.
 *
 * No header of HDF5 is needed. From version 1.10 on its identifiers have 64 bits. Files of earlier
 * versions are opened as the program says.
 */
#define _GNU_SOURCE
#include "ioapply/hdf5.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hooks/calling_library.h"

#define EXPORT __attribute__((visibility("default")))
#define CODE(function) ((const void*)(uintptr_t)(function))

typedef int64_t identifier;
typedef unsigned long long size; /* in a file */

enum { FIRST_MINOR = 10, NONE = -1, DEFAULTS = 0 };

static size alignment;     /* bytes; 0: as the program says */
static size_t cache_bytes; /* of each data set; 0: as the program says */
static size_t cache_slots; /* that find chunks in it */

static size number_of(const char* name) {
    const char* text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

void hdf5_begin(void) {
    alignment = number_of("PAGELENS_IO_HDF5_ALIGNMENT");
    cache_bytes = number_of("PAGELENS_IO_HDF5_CACHE");
    cache_slots = number_of("PAGELENS_IO_HDF5_SLOTS");
}

/* What is used of the copy of HDF5 that opens the file. A process can have several copies. */
struct library {
    int (*version)(unsigned*, unsigned*, unsigned*);
    int (*open)(void);
    identifier (*copy)(identifier);
    int (*close)(identifier);
    int (*get_alignment)(identifier, size*, size*);
    int (*set_alignment)(identifier, size, size);
    int (*get_cache)(identifier, int*, size_t*, size_t*, double*);
    int (*set_cache)(identifier, int, size_t, size_t, double);
    const identifier* defaults;
};

/* Finds the copy that has a function. Returns false if it is not a whole one, or too old. */
static bool found_library(struct library* found, const void* function) {
    Dl_info info;
    struct link_map* map = NULL;
    if (!dladdr1(function, &info, (void**)&map, RTLD_DL_LINKMAP) || !*map->l_name) return false;
    void* const handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) return false;
#define FIND(field, name) found->field = __extension__(__typeof__(found->field)) dlsym(handle, name)
    FIND(version, "H5get_libversion");
    FIND(open, "H5open");
    FIND(copy, "H5Pcopy");
    FIND(close, "H5Pclose");
    FIND(get_alignment, "H5Pget_alignment");
    FIND(set_alignment, "H5Pset_alignment");
    FIND(get_cache, "H5Pget_cache");
    FIND(set_cache, "H5Pset_cache");
    FIND(defaults, "H5P_LST_FILE_ACCESS_ID_g");
    dlclose(handle); /* it stays loaded: the program is calling it */
    unsigned major = 0, minor = 0, release = 0;
    return found->version && found->open && found->copy && found->close && found->get_alignment &&
           found->set_alignment && found->get_cache && found->set_cache && found->defaults &&
           found->version(&major, &minor, &release) >= 0 &&
           (major > 1 || (major == 1 && minor >= FIRST_MINOR));
}

static bool align(const struct library* hdf5, identifier list) {
    size threshold = 1, unit = 1;
    if (alignment == 0 || hdf5->get_alignment(list, &threshold, &unit) < 0 || unit > 1)
        return false;
    /* A smaller object than a unit would leave more of the file empty than it fills. */
    return hdf5->set_alignment(list, alignment, alignment) >= 0;
}

static bool enlarge_cache(const struct library* hdf5, identifier list) {
    int unused = 0;
    size_t slots = 0, bytes = 0;
    double preemption = 0;
    if (hdf5->get_cache(list, &unused, &slots, &bytes, &preemption) < 0 || bytes >= cache_bytes)
        return false;
    if (slots < cache_slots) slots = cache_slots;
    return hdf5->set_cache(list, unused, slots, cache_bytes, preemption) >= 0;
}

/* Returns a copy of a list of properties with what is to be set, or NONE. */
static identifier changed_copy(const struct library* hdf5, identifier list) {
    if (hdf5->open() < 0) return NONE; /* from now on the list of defaults is there */
    const identifier copy = hdf5->copy(list == DEFAULTS ? *hdf5->defaults : list);
    if (copy < 0) return NONE;
    const bool is_aligned = align(hdf5, copy), is_enlarged = enlarge_cache(hdf5, copy);
    if (is_aligned || is_enlarged) return copy;
    hdf5->close(copy);
    return NONE;
}

/* The properties for one call that opens a file. */
struct access {
    struct library hdf5;
    identifier copy; /* NONE: the program's own list */
    const void* outer;
};

static identifier begin_access(struct access* access, const void* next, identifier list) {
    const int saved_errno = errno;
    access->copy = NONE;
    if ((alignment || cache_bytes) && found_library(&access->hdf5, next))
        access->copy = changed_copy(&access->hdf5, list);
    access->outer = enter_function(next);
    errno = saved_errno;
    return access->copy == NONE ? list : access->copy;
}

static void end_access(const struct access* access, identifier file) {
    const int saved_errno = errno;
    enter_function(access->outer);
    /* Each call clears what HDF5 says of the last error. After a failure, the program may ask. */
    if (access->copy != NONE && file >= 0) access->hdf5.close(access->copy);
    errno = saved_errno;
}

typedef identifier create(const char*, unsigned, identifier, identifier);
typedef identifier open_(const char*, unsigned, identifier);

__attribute__((used)) static identifier wrap_H5Fcreate(const char* path, unsigned flags,
                                                       identifier creation, identifier list) {
    const void* const from = __builtin_return_address(0);
    create* const next =
        __extension__(create*) next_function("H5Fcreate", from, CODE(wrap_H5Fcreate));
    if (next == NULL) return NONE;
    struct access access;
    const identifier properties = begin_access(&access, CODE(next), list);
    const identifier file = next(path, flags, creation, properties);
    end_access(&access, file);
    return file;
}

__attribute__((used)) static identifier wrap_H5Fopen(const char* path, unsigned flags,
                                                     identifier list) {
    const void* const from = __builtin_return_address(0);
    open_* const next = __extension__(open_*) next_function("H5Fopen", from, CODE(wrap_H5Fopen));
    if (next == NULL) return NONE;
    struct access access;
    const identifier properties = begin_access(&access, CODE(next), list);
    const identifier file = next(path, flags, properties);
    end_access(&access, file);
    return file;
}

/* The wrappers themselves are local, as in hooks/mpi_calls.c. */
extern EXPORT identifier H5Fcreate(const char* path, unsigned flags, identifier creation,
                                   identifier list) __attribute__((alias("wrap_H5Fcreate")));
extern EXPORT identifier H5Fopen(const char* path, unsigned flags, identifier list)
    __attribute__((alias("wrap_H5Fopen")));
