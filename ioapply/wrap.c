/* The functions of libc that write, close or map files. Each calls the next function of its name
 * unless a write is made direct. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "ioapply/descriptors.h"
#include "ioapply/direct.h"

/* clang-format off */
#define NEXT_FUNCTIONS(DO) \
    DO(write) DO(pwrite) DO(pwrite64) DO(close) DO(fclose) DO(close_range) DO(closefrom) \
    DO(dup2) DO(dup3)
/* clang-format on */
#include "hooks/next_functions.h"

#define EXPORT __attribute__((visibility("default")))

__attribute__((constructor)) static void begin(void) { direct_begin(); }

/* Programs may call these functions before the library's constructor has run. */
static inline void resolved_first(void) {
    if (!usable()) resolve();
}

EXPORT ssize_t write(int file, const void* buffer, size_t size) {
    ssize_t result;
    resolved_first();
    return direct_write(file, buffer, size, &result) ? result : real.write(file, buffer, size);
}

#define PWRITE(name, offset_type)                                                        \
    EXPORT ssize_t name(int file, const void* buffer, size_t size, offset_type offset) { \
        ssize_t result;                                                                  \
        resolved_first();                                                                \
        return direct_pwrite(file, buffer, size, offset, &result)                        \
                   ? result                                                              \
                   : real.name(file, buffer, size, offset);                              \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

EXPORT int close(int file) {
    resolved_first();
    direct_closed(file);
    return real.close(file);
}

/* A program may write to a stream's descriptor itself. */
EXPORT int fclose(FILE* stream) {
    resolved_first();
    direct_closed(fileno(stream));
    return real.fclose(stream);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
    resolved_first();
    if (!((unsigned)flags & CLOSE_RANGE_CLOEXEC)) direct_closed_range(first, last);
    return real.close_range ? real.close_range(first, last, flags)
                            : (int)syscall(SYS_close_range, first, last, flags);
}

EXPORT void closefrom(int first) {
    resolved_first();
    direct_closed_range(first < 0 ? 0 : (unsigned)first, ~0u);
    if (real.closefrom)
        real.closefrom(first);
    else
        syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0);
}

EXPORT int dup2(int file, int wanted) {
    resolved_first();
    if (file != wanted) direct_closed(wanted);
    return real.dup2(file, wanted);
}

EXPORT int dup3(int file, int wanted, int flags) {
    resolved_first();
    if (file != wanted) direct_closed(wanted);
    return real.dup3(file, wanted, flags);
}

/* Allocators map before they can do anything, so mmap never looks for the next function. */
#define MMAP(name, offset_type)                                                          \
    EXPORT void* name(void* address, size_t size, int protection, int flags, int file,   \
                      offset_type offset) {                                              \
        if (file >= 0 && !(flags & MAP_ANONYMOUS)) direct_mapped(file);                  \
        return (void*)syscall(SYS_mmap, address, size, protection, flags, file, offset); \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)
