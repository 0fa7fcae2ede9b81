/*
 * The functions of libc that open, read, write and close files. Each calls the next function of its
 * name and records what it did. Functions of one signature have a macro: libc has most of them with
 * off_t and with off64_t. Programs that are compiled with _FORTIFY_SOURCE call those that begin
 * with two underscores.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hooks/newer_functions.h"
#include "iorecord/files.h"
#include "iorecord/log.h"
#include "iorecord/operation.h"

ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);

/* clang-format off */
#define NEXT_FUNCTIONS(DO) \
    DO(open) DO(open64) DO(openat) DO(openat64) DO(creat) DO(creat64) DO(__open_2) DO(__open64_2) \
    DO(__openat_2) DO(__openat64_2) DO(fopen) DO(fopen64) DO(freopen) DO(freopen64) DO(close) \
    DO(close_range) DO(closefrom) DO(read) DO(write) DO(pread) DO(pread64) DO(pwrite) DO(pwrite64) \
    DO(readv) DO(writev) DO(preadv) DO(preadv64) DO(pwritev) DO(pwritev64) DO(preadv2) DO(preadv64v2) \
    DO(pwritev2) DO(pwritev64v2) DO(__read_chk) DO(__pread_chk) DO(__pread64_chk) DO(lseek) DO(lseek64) \
    DO(fsync) DO(fdatasync) DO(sync_file_range) DO(posix_fadvise) DO(posix_fadvise64) DO(msync) \
    DO(dup) DO(dup2) DO(dup3) DO(fcntl) DO(fcntl64) DO(ftruncate) DO(ftruncate64) DO(fallocate) \
    DO(fallocate64) DO(posix_fallocate) DO(posix_fallocate64) DO(copy_file_range) DO(sendfile) \
    DO(sendfile64) DO(readahead)
/* clang-format on */
#include "hooks/next_functions.h"

#define EXPORT __attribute__((visibility("default")))

/* Programs may call these functions before the library's constructor has run. */
static inline void resolved_first(void) {
    if (!usable()) resolve();
}

/* The argument behind `before` of a function with `...`. */
#define TAKE_LAST(type, name, before)     \
    va_list rest;                         \
    va_start(rest, before);               \
    type const name = va_arg(rest, type); \
    va_end(rest)

/* --- functions that open a descriptor --- */

/* What an open may change of a file; nobody can tell afterwards. */
struct before {
    uint64_t bytes; /* that it truncates */
    bool missing;
};

static struct before before_open(int folder, const char* path, int flags) {
    struct stat info;
    struct before before = {0, false};
    if (!(flags & (O_TRUNC | O_CREAT)) || !log_is_open()) return before;
    const int saved_errno = errno;
    if (syscall(SYS_newfstatat, folder, path, &info, 0) != 0)
        before.missing = errno == ENOENT;
    else if ((flags & O_TRUNC) && S_ISREG(info.st_mode))
        before.bytes = (uint64_t)info.st_size;
    errno = saved_errno;
    return before;
}

static void opened(const struct operation* operation, int descriptor, int flags,
                   struct before before) {
    const int64_t offset = before.missing && descriptor >= 0 ? 0 : -1;
    const struct request request = {KIND_OPEN, descriptor,      offset, before.bytes,
                                    NULL,      (uint32_t)flags, 1};
    if (operation->recorded && descriptor >= 0) file_gone(descriptor);
    operation_end(operation, &request, descriptor);
    if (operation->recorded && descriptor >= 0) file_seen(descriptor);
}

#define CALL_OPEN(folder, path, flags, name, ...)                  \
    resolved_first();                                              \
    const struct before before = before_open(folder, path, flags); \
    const struct operation operation = table_begin();              \
    const int result = real.name(__VA_ARGS__);                     \
    opened(&operation, result, flags, before);                     \
    return result

#define OPEN(name)                                                 \
    EXPORT int name(const char* path, int flags, ...) {            \
        TAKE_LAST(mode_t, mode, flags);                            \
        CALL_OPEN(AT_FDCWD, path, flags, name, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                     \
    EXPORT int name(int folder, const char* path, int flags, ...) {      \
        TAKE_LAST(mode_t, mode, flags);                                  \
        CALL_OPEN(folder, path, flags, name, folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name)                                                                \
    EXPORT int name(const char* path, mode_t mode) {                               \
        CALL_OPEN(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, name, path, mode); \
    }
CREAT(creat)
CREAT(creat64)

#define OPEN_2(name)                                         \
    EXPORT int name(const char* path, int flags) {           \
        CALL_OPEN(AT_FDCWD, path, flags, name, path, flags); \
    }
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                             \
    EXPORT int name(int folder, const char* path, int flags) {     \
        CALL_OPEN(folder, path, flags, name, folder, path, flags); \
    }
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

/* Returns how stdio opens a file by this mode, as far as it changes the file. */
static int flags_of_mode(const char* mode) {
    if (mode[0] == 'w') return O_CREAT | O_WRONLY | O_TRUNC;
    return mode[0] == 'a' ? O_CREAT | O_WRONLY | O_APPEND : 0;
}

#define CALL_FOPEN(name, path, mode, ...)                                       \
    resolved_first();                                                           \
    const int flags = flags_of_mode(mode);                                      \
    const struct before before = before_open(AT_FDCWD, path, path ? flags : 0); \
    const struct operation operation = table_begin();                           \
    FILE* const stream = real.name(__VA_ARGS__);                                \
    opened(&operation, stream ? fileno_unlocked(stream) : -1, flags, before);   \
    return stream

#define FOPEN(name)                                         \
    EXPORT FILE* name(const char* path, const char* mode) { \
        CALL_FOPEN(name, path, mode, path, mode);           \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define FREOPEN(name)                                                  \
    EXPORT FILE* name(const char* path, const char* mode, FILE* old) { \
        CALL_FOPEN(name, path, mode, path, mode, old);                 \
    }
FREOPEN(freopen)
FREOPEN(freopen64)

/* --- functions that close descriptors --- */

/* The bytes of a file without a name, which its last close drops. */
static uint64_t bytes_without_name(int descriptor) {
    struct stat info;
    if (!log_is_open()) return 0;
    const int saved_errno = errno;
    const long failed = syscall(SYS_newfstatat, descriptor, "", &info, AT_EMPTY_PATH);
    errno = saved_errno;
    const bool unnamed = failed == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0;
    return unnamed ? (uint64_t)info.st_size : 0;
}

EXPORT int close(int descriptor) {
    resolved_first();
    const uint64_t dropped = bytes_without_name(descriptor);
    const struct request request = {KIND_CLOSE, descriptor, -1, dropped, NULL, 0, 1};
    const struct operation operation = table_begin();
    if (operation.recorded) file_gone(descriptor); /* before another thread gets its number */
    const int result = real.close(descriptor);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
    resolved_first();
    if (table_begin().recorded) files_gone(first, last);
    return real.close_range ? real.close_range(first, last, flags)
                            : (int)syscall(SYS_close_range, first, last, flags);
}

EXPORT void closefrom(int first) {
    resolved_first();
    if (table_begin().recorded && first >= 0) files_gone((unsigned)first, ~0u);
    if (real.closefrom)
        real.closefrom(first);
    else
        syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0);
}

/* --- functions on an open file --- */

/* Calls the next function between begin and end of an operation. `...` is its struct request. */
#define ON_FILE(type, end, call, ...)                         \
    resolved_first();                                         \
    const struct request request = __VA_ARGS__;               \
    const struct operation operation = operation_begin(file); \
    const type result = real.call;                            \
    end(&operation, &request, result);                        \
    return result
#define RETURNS(type, call, ...) ON_FILE(type, operation_end, call, __VA_ARGS__)
#define RETURNS_ERROR(call, ...) ON_FILE(int, operation_end_error, call, __VA_ARGS__)

EXPORT ssize_t read(int file, void* buffer, size_t size) {
    RETURNS(ssize_t, read(file, buffer, size), {KIND_READ, file, -1, size, buffer, 0, 1});
}

EXPORT ssize_t __read_chk(int file, void* buffer, size_t size, size_t room) {
    RETURNS(ssize_t, __read_chk(file, buffer, size, room),
            {KIND_READ, file, -1, size, buffer, 0, 1});
}

EXPORT ssize_t write(int file, const void* buffer, size_t size) {
    RETURNS(ssize_t, write(file, buffer, size), {KIND_WRITE, file, -1, size, buffer, 0, 1});
}

#define PREAD(name, offset_type)                                                   \
    EXPORT ssize_t name(int file, void* buffer, size_t size, offset_type offset) { \
        RETURNS(ssize_t, name(file, buffer, size, offset),                         \
                {KIND_READ, file, offset, size, buffer, 0, 1});                    \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define PREAD_CHK(name, offset_type)                                                            \
    EXPORT ssize_t name(int file, void* buffer, size_t size, offset_type offset, size_t room) { \
        RETURNS(ssize_t, name(file, buffer, size, offset, room),                                \
                {KIND_READ, file, offset, size, buffer, 0, 1});                                 \
    }
PREAD_CHK(__pread_chk, off_t)
PREAD_CHK(__pread64_chk, off64_t)

#define PWRITE(name, offset_type)                                                        \
    EXPORT ssize_t name(int file, const void* buffer, size_t size, offset_type offset) { \
        RETURNS(ssize_t, name(file, buffer, size, offset),                               \
                {KIND_WRITE, file, offset, size, buffer, 0, 1});                         \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

/* The request of a function that takes its memory in parts. */
static struct request parted(enum record_kind kind, int file, int64_t offset,
                             const struct iovec* parts, int count, int flags) {
    uint64_t bytes = 0;
    for (int i = 0; parts && i < count; i++) bytes += parts[i].iov_len;
    const void* const first = count > 0 ? parts->iov_base : NULL;
    return (struct request){kind, file, offset, bytes, first, (uint32_t)flags, (uint32_t)count};
}

#define VECTOR(name, kind)                                                                   \
    EXPORT ssize_t name(int file, const struct iovec* parts, int count) {                    \
        RETURNS(ssize_t, name(file, parts, count), parted(kind, file, -1, parts, count, 0)); \
    }
VECTOR(readv, KIND_READ)
VECTOR(writev, KIND_WRITE)

#define VECTOR_AT(name, kind, offset_type)                                                    \
    EXPORT ssize_t name(int file, const struct iovec* parts, int count, offset_type offset) { \
        RETURNS(ssize_t, name(file, parts, count, offset),                                    \
                parted(kind, file, offset, parts, count, 0));                                 \
    }
VECTOR_AT(preadv, KIND_READ, off_t)
VECTOR_AT(preadv64, KIND_READ, off64_t)
VECTOR_AT(pwritev, KIND_WRITE, off_t)
VECTOR_AT(pwritev64, KIND_WRITE, off64_t)

#define VECTOR_FLAGS(name, kind, offset_type)                                               \
    EXPORT ssize_t name(int file, const struct iovec* parts, int count, offset_type offset, \
                        int flags) {                                                        \
        RETURNS(ssize_t, name(file, parts, count, offset, flags),                           \
                parted(kind, file, offset, parts, count, flags));                           \
    }
VECTOR_FLAGS(preadv2, KIND_READ, off_t)
VECTOR_FLAGS(preadv64v2, KIND_READ, off64_t)
VECTOR_FLAGS(pwritev2, KIND_WRITE, off_t)
VECTOR_FLAGS(pwritev64v2, KIND_WRITE, off64_t)

#define LSEEK(name, offset_type)                                        \
    EXPORT offset_type name(int file, offset_type offset, int from) {   \
        RETURNS(offset_type, name(file, offset, from),                  \
                {KIND_SEEK, file, offset, 0, NULL, (uint32_t)from, 1}); \
    }
LSEEK(lseek, off_t)
LSEEK(lseek64, off64_t)

EXPORT int fsync(int file) { RETURNS(int, fsync(file), {KIND_SYNC, file, -1, 0, NULL, 0, 1}); }

EXPORT int fdatasync(int file) {
    RETURNS(int, fdatasync(file), {KIND_DATASYNC, file, -1, 0, NULL, 0, 1});
}

EXPORT int sync_file_range(int file, off64_t offset, off64_t size, unsigned flags) {
    RETURNS(int, sync_file_range(file, offset, size, flags),
            {KIND_SYNC_RANGE, file, offset, (uint64_t)size, NULL, flags, 1});
}

EXPORT ssize_t readahead(int file, off64_t offset, size_t size) {
    RETURNS(ssize_t, readahead(file, offset, size),
            {KIND_READAHEAD, file, offset, size, NULL, 0, 1});
}

#define ADVISE(name, offset_type)                                                              \
    EXPORT int name(int file, offset_type offset, offset_type size, int advice) {              \
        RETURNS_ERROR(name(file, offset, size, advice),                                        \
                      {KIND_ADVISE, file, offset, (uint64_t)size, NULL, (uint32_t)advice, 1}); \
    }
ADVISE(posix_fadvise, off_t)
ADVISE(posix_fadvise64, off64_t)

#define TRUNCATE(name, offset_type)                                                            \
    EXPORT int name(int file, offset_type size) {                                              \
        RETURNS(int, name(file, size), {KIND_TRUNCATE, file, -1, (uint64_t)size, NULL, 0, 1}); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define ALLOCATE(name, offset_type)                                                      \
    EXPORT int name(int file, int mode, offset_type offset, offset_type size) {          \
        RETURNS(int, name(file, mode, offset, size),                                     \
                {KIND_ALLOCATE, file, offset, (uint64_t)size, NULL, (uint32_t)mode, 1}); \
    }
ALLOCATE(fallocate, off_t)
ALLOCATE(fallocate64, off64_t)

#define POSIX_ALLOCATE(name, offset_type)                                         \
    EXPORT int name(int file, offset_type offset, offset_type size) {             \
        RETURNS_ERROR(name(file, offset, size),                                   \
                      {KIND_ALLOCATE, file, offset, (uint64_t)size, NULL, 0, 1}); \
    }
POSIX_ALLOCATE(posix_fallocate, off_t)
POSIX_ALLOCATE(posix_fallocate64, off64_t)

EXPORT int msync(void* address, size_t size, int flags) {
    const int file = -1;
    RETURNS(int, msync(address, size, flags),
            {KIND_MSYNC, file, -1, size, address, (uint32_t)flags, 1});
}

/* --- functions that copy from file to file --- */

/* Describes the file that is read, too, if the log does not know it yet. */
#define COPY(in, call, ...)    \
    resolved_first();          \
    (void)operation_begin(in); \
    RETURNS(ssize_t, call, __VA_ARGS__)

EXPORT ssize_t copy_file_range(int in, off64_t* in_offset, int file, off64_t* offset, size_t size,
                               unsigned flags) {
    COPY(in, copy_file_range(in, in_offset, file, offset, size, flags),
         {KIND_COPY, file, offset ? *offset : -1, size, (const void*)(intptr_t)in, flags, 1});
}

#define SENDFILE(name, offset_type)                                           \
    EXPORT ssize_t name(int file, int in, offset_type* offset, size_t size) { \
        COPY(in, name(file, in, offset, size),                                \
             {KIND_COPY, file, -1, size, (const void*)(intptr_t)in, 0, 1});   \
    }
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

/* --- functions that map a file --- */

/* Memory that is no file's is mapped at once, because allocators map before they can do anything.
 */
static void* mapped(void* address, size_t size, int protection, int flags, int file,
                    off64_t offset) {
    if (file < 0 || flags & MAP_ANONYMOUS)
        return (void*)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    const struct request request = {KIND_MMAP,           file, offset, size, NULL, (uint32_t)flags,
                                    (uint32_t)protection};
    const struct operation operation = operation_begin(file);
    void* result = (void*)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    operation_end(&operation, &request, (int64_t)(intptr_t)result);
    return result;
}

#define MMAP(name, offset_type)                                                        \
    EXPORT void* name(void* address, size_t size, int protection, int flags, int file, \
                      offset_type offset) {                                            \
        return mapped(address, size, protection, flags, file, offset);                 \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* --- functions that double a descriptor --- */

static void doubled(const struct operation* operation, int file, int second) {
    const struct request request = {KIND_DUP, file, -1, 0, NULL, 0, 1};
    if (operation->recorded && second >= 0) {
        file_seen(file);
        file_doubled(file, second);
    }
    operation_end(operation, &request, second);
}

#define CALL_DUP(name, ...)                           \
    resolved_first();                                 \
    const struct operation operation = table_begin(); \
    const int second = real.name(__VA_ARGS__);        \
    doubled(&operation, file, second);                \
    return second

EXPORT int dup(int file) { CALL_DUP(dup, file); }
EXPORT int dup2(int file, int wanted) { CALL_DUP(dup2, file, wanted); }
EXPORT int dup3(int file, int wanted, int flags) { CALL_DUP(dup3, file, wanted, flags); }

static int control(int (*next)(int, int, ...), int file, int command, void* argument) {
    const bool doubles = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (!doubles && command != F_SETFL) return next(file, command, argument);
    const uint32_t flags = (uint32_t)(uintptr_t)argument;
    const struct request request = {KIND_SETFL, file, -1, 0, NULL, flags, 1};
    const struct operation operation = table_begin();
    const int result = next(file, command, argument);
    if (doubles)
        doubled(&operation, file, result);
    else
        operation_end(&operation, &request, result);
    return result;
}

#define FCNTL(name)                                                                  \
    EXPORT int name(int file, int command, ...) {                                    \
        TAKE_LAST(void*, argument, command);                                         \
        resolved_first();                                                            \
        return control(real.name ? real.name : real.fcntl, file, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
