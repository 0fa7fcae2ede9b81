/*
 * Recognises a language's runtime or an allocator by its file name. Such a library allocates for
 * its callers, so the call site of a block begins at the first frame outside of it.
 */
#ifndef PAGELENS_RUNTIME_LIBRARIES_H
#define PAGELENS_RUNTIME_LIBRARIES_H

#include <stddef.h>
#include <string.h>

/* Compares the stem of the file's name: libc.so.6, libc-2.31.so, libstdc++.so.6.0.30, ... */
static inline int is_runtime_library(const char* path) {
    static const char* const stems[] = {"ld-linux-x86-64",
                                        "ld-musl-x86_64",
                                        "ld",
                                        "libc",
                                        "libm",
                                        "libpthread",
                                        "libgcc_s",
                                        "libstdc++",
                                        "libc++",
                                        "libc++abi",
                                        "libgfortran",
                                        "libquadmath",
                                        "libgomp",
                                        "libomp",
                                        "libiomp5",
                                        "libjemalloc",
                                        "libtcmalloc",
                                        "libtcmalloc_minimal",
                                        "libmimalloc",
                                        "libtbbmalloc"};
    const char* slash = strrchr(path, '/');
    const char* name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        const size_t length = strlen(stems[i]);
        if (strncmp(name, stems[i], length) != 0) continue;
        const char* rest = name + length;
        if (strncmp(rest, ".so", 3) == 0) return 1;
        if (rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9') return 1;
    }
    return 0;
}

#endif
