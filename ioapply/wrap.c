/* The functions of libc that open, write, close, lock or map files. Each calls the next function of
 * its name unless a write is made direct. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "hooks/newer_functions.h"
#include "ioapply/descriptors.h"
#include "ioapply/direct.h"
#include "ioapply/hdf5.h"
#include "ioapply/streams.h"

/* clang-format off */
#define NEXT_FUNCTIONS(DO) \
    DO(write) DO(pwrite) DO(pwrite64) DO(close) DO(fclose) DO(close_range) DO(closefrom) \
    DO(dup2) DO(dup3) DO(fopen) DO(fopen64) DO(fdopen) DO(freopen) DO(freopen64) DO(fcntl) DO(fcntl64) DO(lockf) DO(lockf64) DO(prctl)
/* clang-format on */
#include "hooks/next_functions.h"

#define EXPORT __attribute__((visibility("default")))

__attribute__((constructor)) static void begin(void) {
    direct_begin();
    hdf5_begin();
    streams_begin();
}

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

/* A program may write to a stream's descriptor itself. Streams in memory have none. */
static void stream_closed(FILE* stream) {
    const int saved_errno = errno;
    direct_closed(fileno(stream));
    errno = saved_errno;
}

EXPORT int fclose(FILE* stream) {
    resolved_first();
    stream_closed(stream);
    const int place = stream_place_closing(stream);
    const int result = real.fclose(stream); /* writes what is in the buffer */
    stream_place_free(place);
    return result;
}

static FILE* opened(FILE* stream) {
    stream_opened(stream);
    return stream;
}

#define FOPEN(name)                                         \
    EXPORT FILE* name(const char* path, const char* mode) { \
        resolved_first();                                   \
        return opened(real.name(path, mode));               \
    }
FOPEN(fopen)
FOPEN(fopen64)

EXPORT FILE* fdopen(int file, const char* mode) {
    resolved_first();
    return opened(real.fdopen(file, mode));
}

#define FREOPEN(name)                                                     \
    EXPORT FILE* name(const char* path, const char* mode, FILE* stream) { \
        resolved_first();                                                 \
        stream_closed(stream);                                            \
        return opened(real.name(path, mode, stream));                     \
    }
FREOPEN(freopen)
FREOPEN(freopen64)

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

static bool is_lock(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
           command == F_OFD_SETLKW || command == F_SETLEASE;
}

#define FCNTL(name)                                \
    EXPORT int name(int file, int command, ...) {  \
        va_list rest;                              \
        va_start(rest, command);                   \
        void* argument = va_arg(rest, void*);      \
        va_end(rest);                              \
        resolved_first();                          \
        if (is_lock(command)) direct_locked(file); \
        return real.name(file, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define LOCKF(name, offset_type)                            \
    EXPORT int name(int file, int what, offset_type size) { \
        resolved_first();                                   \
        direct_locked(file);                                \
        return real.name(file, what, size);                 \
    }
LOCKF(lockf, off_t)
LOCKF(lockf64, off64_t)

EXPORT int prctl(int what, ...) {
    va_list rest;
    va_start(rest, what);
    unsigned long of[4];
    for (int i = 0; i < 4; i++) of[i] = va_arg(rest, unsigned long);
    va_end(rest);
    resolved_first();
    if (what == PR_SET_SECCOMP || what == PR_SET_NO_NEW_PRIVS) direct_end();
    return real.prctl(what, of[0], of[1], of[2], of[3]);
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
