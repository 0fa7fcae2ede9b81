/*
 * The functions of libc that open, read, write and close files. Each calls the next one of its name
 * and records what it did. Programs that are compiled with _FORTIFY_SOURCE call those that begin
 * with two underscores.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iorecord/files.h"
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

static uint64_t bytes_of(const struct iovec* parts, int count) {
    uint64_t bytes = 0;
    for (int i = 0; parts && i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

/* A descriptor that has just been opened. */
static void opened(const struct operation* operation, int descriptor, int flags) {
    const struct request request = {KIND_OPEN, descriptor, -1, 0, NULL, (uint32_t)flags, 1};
    if (operation->recorded && descriptor >= 0) file_gone(descriptor);
    operation_end(operation, &request, descriptor);
    if (operation->recorded && descriptor >= 0) file_seen(descriptor);
}

EXPORT int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.open(path, flags, mode);
    opened(&operation, result, flags);
    return result;
}

EXPORT int open64(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.open64(path, flags, mode);
    opened(&operation, result, flags);
    return result;
}

EXPORT int openat(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.openat(folder, path, flags, mode);
    opened(&operation, result, flags);
    return result;
}

EXPORT int openat64(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.openat64(folder, path, flags, mode);
    opened(&operation, result, flags);
    return result;
}

EXPORT int creat(const char* path, mode_t mode) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.creat(path, mode);
    opened(&operation, result, O_CREAT | O_WRONLY | O_TRUNC);
    return result;
}

EXPORT int creat64(const char* path, mode_t mode) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.creat64(path, mode);
    opened(&operation, result, O_CREAT | O_WRONLY | O_TRUNC);
    return result;
}

EXPORT int __open_2(const char* path, int flags) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.__open_2(path, flags);
    opened(&operation, result, flags);
    return result;
}

EXPORT int __open64_2(const char* path, int flags) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.__open64_2(path, flags);
    opened(&operation, result, flags);
    return result;
}

EXPORT int __openat_2(int folder, const char* path, int flags) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.__openat_2(folder, path, flags);
    opened(&operation, result, flags);
    return result;
}

EXPORT int __openat64_2(int folder, const char* path, int flags) {
    resolved_first();
    const struct operation operation = table_begin();
    const int result = real.__openat64_2(folder, path, flags);
    opened(&operation, result, flags);
    return result;
}

static void stream_opened(const struct operation* operation, FILE* stream) {
    opened(operation, stream ? fileno_unlocked(stream) : -1, 0);
}

EXPORT FILE* fopen(const char* path, const char* mode) {
    resolved_first();
    const struct operation operation = table_begin();
    FILE* stream = real.fopen(path, mode);
    stream_opened(&operation, stream);
    return stream;
}

EXPORT FILE* fopen64(const char* path, const char* mode) {
    resolved_first();
    const struct operation operation = table_begin();
    FILE* stream = real.fopen64(path, mode);
    stream_opened(&operation, stream);
    return stream;
}

EXPORT FILE* freopen(const char* path, const char* mode, FILE* stream) {
    resolved_first();
    const struct operation operation = table_begin();
    FILE* result = real.freopen(path, mode, stream);
    stream_opened(&operation, result);
    return result;
}

EXPORT FILE* freopen64(const char* path, const char* mode, FILE* stream) {
    resolved_first();
    const struct operation operation = table_begin();
    FILE* result = real.freopen64(path, mode, stream);
    stream_opened(&operation, result);
    return result;
}

EXPORT int close(int descriptor) {
    resolved_first();
    const struct request request = {KIND_CLOSE, descriptor, -1, 0, NULL, 0, 1};
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

EXPORT ssize_t read(int file, void* buffer, size_t size) {
    resolved_first();
    const struct request request = {KIND_READ, file, -1, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.read(file, buffer, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t write(int file, const void* buffer, size_t size) {
    resolved_first();
    const struct request request = {KIND_WRITE, file, -1, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.write(file, buffer, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pread(int file, void* buffer, size_t size, off_t offset) {
    resolved_first();
    const struct request request = {KIND_READ, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pread(file, buffer, size, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pread64(int file, void* buffer, size_t size, off64_t offset) {
    resolved_first();
    const struct request request = {KIND_READ, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pread64(file, buffer, size, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwrite(int file, const void* buffer, size_t size, off_t offset) {
    resolved_first();
    const struct request request = {KIND_WRITE, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwrite(file, buffer, size, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwrite64(int file, const void* buffer, size_t size, off64_t offset) {
    resolved_first();
    const struct request request = {KIND_WRITE, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwrite64(file, buffer, size, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t readv(int file, const struct iovec* parts, int count) {
    resolved_first();
    const struct request request = {
        KIND_READ, file,           -1, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL,
        0,         (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.readv(file, parts, count);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t writev(int file, const struct iovec* parts, int count) {
    resolved_first();
    const struct request request = {
        KIND_WRITE, file,           -1, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL,
        0,          (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.writev(file, parts, count);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t preadv(int file, const struct iovec* parts, int count, off_t offset) {
    resolved_first();
    const struct request request = {
        KIND_READ,      file, offset, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL, 0,
        (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.preadv(file, parts, count, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t preadv64(int file, const struct iovec* parts, int count, off64_t offset) {
    resolved_first();
    const struct request request = {
        KIND_READ,      file, offset, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL, 0,
        (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.preadv64(file, parts, count, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwritev(int file, const struct iovec* parts, int count, off_t offset) {
    resolved_first();
    const struct request request = {
        KIND_WRITE,     file, offset, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL, 0,
        (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwritev(file, parts, count, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwritev64(int file, const struct iovec* parts, int count, off64_t offset) {
    resolved_first();
    const struct request request = {
        KIND_WRITE,     file, offset, bytes_of(parts, count), count > 0 ? parts->iov_base : NULL, 0,
        (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwritev64(file, parts, count, offset);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t preadv2(int file, const struct iovec* parts, int count, off_t offset, int flags) {
    resolved_first();
    const struct request request = {KIND_READ,
                                    file,
                                    offset,
                                    bytes_of(parts, count),
                                    count > 0 ? parts->iov_base : NULL,
                                    (uint32_t)flags,
                                    (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.preadv2(file, parts, count, offset, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t preadv64v2(int file, const struct iovec* parts, int count, off64_t offset,
                          int flags) {
    resolved_first();
    const struct request request = {KIND_READ,
                                    file,
                                    offset,
                                    bytes_of(parts, count),
                                    count > 0 ? parts->iov_base : NULL,
                                    (uint32_t)flags,
                                    (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.preadv64v2(file, parts, count, offset, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwritev2(int file, const struct iovec* parts, int count, off_t offset, int flags) {
    resolved_first();
    const struct request request = {KIND_WRITE,
                                    file,
                                    offset,
                                    bytes_of(parts, count),
                                    count > 0 ? parts->iov_base : NULL,
                                    (uint32_t)flags,
                                    (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwritev2(file, parts, count, offset, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t pwritev64v2(int file, const struct iovec* parts, int count, off64_t offset,
                           int flags) {
    resolved_first();
    const struct request request = {KIND_WRITE,
                                    file,
                                    offset,
                                    bytes_of(parts, count),
                                    count > 0 ? parts->iov_base : NULL,
                                    (uint32_t)flags,
                                    (uint32_t)count};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.pwritev64v2(file, parts, count, offset, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t __read_chk(int file, void* buffer, size_t size, size_t room) {
    resolved_first();
    const struct request request = {KIND_READ, file, -1, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.__read_chk(file, buffer, size, room);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t __pread_chk(int file, void* buffer, size_t size, off_t offset, size_t room) {
    resolved_first();
    const struct request request = {KIND_READ, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.__pread_chk(file, buffer, size, offset, room);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t __pread64_chk(int file, void* buffer, size_t size, off64_t offset, size_t room) {
    resolved_first();
    const struct request request = {KIND_READ, file, offset, size, buffer, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.__pread64_chk(file, buffer, size, offset, room);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT off_t lseek(int file, off_t offset, int from) {
    resolved_first();
    const struct request request = {KIND_SEEK, file, offset, 0, NULL, (uint32_t)from, 1};
    const struct operation operation = operation_begin(file);
    const off_t result = real.lseek(file, offset, from);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT off64_t lseek64(int file, off64_t offset, int from) {
    resolved_first();
    const struct request request = {KIND_SEEK, file, offset, 0, NULL, (uint32_t)from, 1};
    const struct operation operation = operation_begin(file);
    const off64_t result = real.lseek64(file, offset, from);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int fsync(int file) {
    resolved_first();
    const struct request request = {KIND_SYNC, file, -1, 0, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.fsync(file);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int fdatasync(int file) {
    resolved_first();
    const struct request request = {KIND_DATASYNC, file, -1, 0, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.fdatasync(file);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int sync_file_range(int file, off64_t offset, off64_t size, unsigned flags) {
    resolved_first();
    const struct request request = {KIND_SYNC_RANGE, file, offset, (uint64_t)size, NULL, flags, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.sync_file_range(file, offset, size, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t readahead(int file, off64_t offset, size_t size) {
    resolved_first();
    const struct request request = {KIND_READAHEAD, file, offset, size, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const ssize_t result = real.readahead(file, offset, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int posix_fadvise(int file, off_t offset, off_t size, int advice) {
    resolved_first();
    const struct request request = {KIND_ADVISE,      file, offset, (uint64_t)size, NULL,
                                    (uint32_t)advice, 1};
    const struct operation operation = operation_begin(file);
    const int error = real.posix_fadvise(file, offset, size, advice);
    operation_end_error(&operation, &request, error);
    return error;
}

EXPORT int posix_fadvise64(int file, off64_t offset, off64_t size, int advice) {
    resolved_first();
    const struct request request = {KIND_ADVISE,      file, offset, (uint64_t)size, NULL,
                                    (uint32_t)advice, 1};
    const struct operation operation = operation_begin(file);
    const int error = real.posix_fadvise64(file, offset, size, advice);
    operation_end_error(&operation, &request, error);
    return error;
}

EXPORT int ftruncate(int file, off_t size) {
    resolved_first();
    const struct request request = {KIND_TRUNCATE, file, -1, (uint64_t)size, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.ftruncate(file, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int ftruncate64(int file, off64_t size) {
    resolved_first();
    const struct request request = {KIND_TRUNCATE, file, -1, (uint64_t)size, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.ftruncate64(file, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int fallocate(int file, int mode, off_t offset, off_t size) {
    resolved_first();
    const struct request request = {KIND_ALLOCATE, file,           offset, (uint64_t)size,
                                    NULL,          (uint32_t)mode, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.fallocate(file, mode, offset, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int fallocate64(int file, int mode, off64_t offset, off64_t size) {
    resolved_first();
    const struct request request = {KIND_ALLOCATE, file,           offset, (uint64_t)size,
                                    NULL,          (uint32_t)mode, 1};
    const struct operation operation = operation_begin(file);
    const int result = real.fallocate64(file, mode, offset, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT int posix_fallocate(int file, off_t offset, off_t size) {
    resolved_first();
    const struct request request = {KIND_ALLOCATE, file, offset, (uint64_t)size, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int error = real.posix_fallocate(file, offset, size);
    operation_end_error(&operation, &request, error);
    return error;
}

EXPORT int posix_fallocate64(int file, off64_t offset, off64_t size) {
    resolved_first();
    const struct request request = {KIND_ALLOCATE, file, offset, (uint64_t)size, NULL, 0, 1};
    const struct operation operation = operation_begin(file);
    const int error = real.posix_fallocate64(file, offset, size);
    operation_end_error(&operation, &request, error);
    return error;
}

EXPORT ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset,
                               size_t size, unsigned flags) {
    resolved_first();
    const struct operation from = operation_begin(in), operation = operation_begin(out);
    const struct request request = {
        KIND_COPY, out, out_offset ? *out_offset : -1, size, (const void*)(intptr_t)in, flags, 1};
    (void)from;
    const ssize_t result = real.copy_file_range(in, in_offset, out, out_offset, size, flags);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t sendfile(int out, int in, off_t* offset, size_t size) {
    resolved_first();
    const struct operation from = operation_begin(in), operation = operation_begin(out);
    const struct request request = {KIND_COPY, out, -1, size, (const void*)(intptr_t)in, 0, 1};
    (void)from;
    const ssize_t result = real.sendfile(out, in, offset, size);
    operation_end(&operation, &request, result);
    return result;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t* offset, size_t size) {
    resolved_first();
    const struct operation from = operation_begin(in), operation = operation_begin(out);
    const struct request request = {KIND_COPY, out, -1, size, (const void*)(intptr_t)in, 0, 1};
    (void)from;
    const ssize_t result = real.sendfile64(out, in, offset, size);
    operation_end(&operation, &request, result);
    return result;
}

/* Called without delay for memory that is no file's: allocators map before they can do anything. */
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

EXPORT void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
    return mapped(address, size, protection, flags, file, offset);
}

EXPORT void* mmap64(void* address, size_t size, int protection, int flags, int file,
                    off64_t offset) {
    return mapped(address, size, protection, flags, file, offset);
}

EXPORT int msync(void* address, size_t size, int flags) {
    resolved_first();
    const struct request request = {KIND_MSYNC, -1, -1, size, address, (uint32_t)flags, 1};
    const struct operation operation = operation_begin(-1);
    const int result = real.msync(address, size, flags);
    operation_end(&operation, &request, result);
    return result;
}

static void doubled(const struct operation* operation, int file, int second) {
    const struct request request = {KIND_DUP, file, -1, 0, NULL, 0, 1};
    if (operation->recorded && second >= 0) {
        file_seen(file);
        file_doubled(file, second);
    }
    operation_end(operation, &request, second);
}

EXPORT int dup(int file) {
    resolved_first();
    const struct operation operation = table_begin();
    const int second = real.dup(file);
    doubled(&operation, file, second);
    return second;
}

EXPORT int dup2(int file, int wanted) {
    resolved_first();
    const struct operation operation = table_begin();
    const int second = real.dup2(file, wanted);
    doubled(&operation, file, second);
    return second;
}

EXPORT int dup3(int file, int wanted, int flags) {
    resolved_first();
    const struct operation operation = table_begin();
    const int second = real.dup3(file, wanted, flags);
    doubled(&operation, file, second);
    return second;
}

EXPORT int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    resolved_first();
    int (*next)(int, int, ...) = real.fcntl ? real.fcntl : real.fcntl;
    const bool doubles = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (!doubles && command != F_SETFL) return next(file, command, argument);
    const struct operation operation = table_begin();
    const struct request request = {KIND_SETFL, file, -1, 0, NULL, (uint32_t)(uintptr_t)argument,
                                    1};
    const int result = next(file, command, argument);
    if (doubles)
        doubled(&operation, file, result);
    else
        operation_end(&operation, &request, result);
    return result;
}

EXPORT int fcntl64(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    resolved_first();
    int (*next)(int, int, ...) = real.fcntl64 ? real.fcntl64 : real.fcntl;
    const bool doubles = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (!doubles && command != F_SETFL) return next(file, command, argument);
    const struct operation operation = table_begin();
    const struct request request = {KIND_SETFL, file, -1, 0, NULL, (uint32_t)(uintptr_t)argument,
                                    1};
    const int result = next(file, command, argument);
    if (doubles)
        doubled(&operation, file, result);
    else
        operation_end(&operation, &request, result);
    return result;
}
