/*
 * Inside glibc, streams read and write by a table of functions, `_IO_file_jumps`. The table and the
 * functions in it are exported, so what the table holds can be checked before it is changed. glibc
 * itself checks only that a stream's table lies among its own ones, which stays true.
 */
#define _GNU_SOURCE
#include "iorecord/stdio_hooks.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "iorecord/files.h"
#include "iorecord/operation.h"

enum slot { SLOT_READ = 14, SLOT_WRITE, SLOT_SEEK, SLOT_CLOSE, SLOTS }; /* glibc's libioP.h */

typedef ssize_t read_function(FILE*, void*, ssize_t);
typedef ssize_t write_function(FILE*, const void*, ssize_t);
typedef off64_t seek_function(FILE*, off64_t, int);
typedef int close_function(FILE*);

static read_function* next_read;
static write_function* next_write;
static seek_function* next_seek;
static close_function* next_close;

static ssize_t stream_read(FILE* stream, void* buffer, ssize_t size) {
    const struct request request = {KIND_READ, fileno_unlocked(stream), -1, (uint64_t)size,
                                    buffer,    FLAG_IN_STDIO,           1};
    const struct operation operation = operation_begin(request.descriptor);
    const ssize_t result = next_read(stream, buffer, size);
    operation_end(&operation, &request, result);
    return result;
}

static ssize_t stream_write(FILE* stream, const void* buffer, ssize_t size) {
    const struct request request = {KIND_WRITE, fileno_unlocked(stream), -1, (uint64_t)size,
                                    buffer,     FLAG_IN_STDIO,           1};
    const struct operation operation = operation_begin(request.descriptor);
    const ssize_t result = next_write(stream, buffer, size);
    operation_end(&operation, &request, result);
    return result;
}

static off64_t stream_seek(FILE* stream, off64_t offset, int from) {
    const struct request request = {KIND_SEEK, fileno_unlocked(stream), offset, 0,
                                    NULL,      (uint32_t)from,          1};
    const struct operation operation = operation_begin(request.descriptor);
    const off64_t result = next_seek(stream, offset, from);
    operation_end(&operation, &request, result);
    return result;
}

static int stream_close(FILE* stream) {
    const struct request request = {KIND_CLOSE, fileno_unlocked(stream), -1, 0, NULL, 0, 1};
    const struct operation operation = table_begin();
    if (operation.recorded) file_gone(request.descriptor);
    const int result = next_close(stream);
    operation_end(&operation, &request, result);
    return result;
}

/* ISO C has no conversion between pointers to data and to functions. */
union entry {
    void* data;
    read_function* read;
    write_function* write;
    seek_function* seek;
    close_function* close;
};

static bool protect(void* table, int protection) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)table & ~(page - 1);
    return mprotect((void*)first, (uintptr_t)table + SLOTS * sizeof(void*) - first, protection) ==
           0;
}

static void hook(void** table) {
    union entry ours[SLOTS] = {0};
    ours[SLOT_READ].read = stream_read;
    ours[SLOT_WRITE].write = stream_write;
    ours[SLOT_SEEK].seek = stream_seek;
    ours[SLOT_CLOSE].close = stream_close;
    if (!protect(table, PROT_READ | PROT_WRITE)) return;
    for (int slot = SLOT_READ; slot < SLOTS; slot++) table[slot] = ours[slot].data;
    protect(table, PROT_READ);
}

void stdio_hooked(void) {
    static const char* const names[SLOTS] = {[SLOT_READ] = "_IO_file_read",
                                             [SLOT_WRITE] = "_IO_file_write",
                                             [SLOT_SEEK] = "_IO_file_seek",
                                             [SLOT_CLOSE] = "_IO_file_close"};
    static const char* const tables[] = {"_IO_file_jumps", "_IO_wfile_jumps"};
    union entry next[SLOTS] = {0};
    for (int slot = SLOT_READ; slot < SLOTS; slot++) {
        next[slot].data = dlsym(RTLD_DEFAULT, names[slot]);
        if (next[slot].data == NULL) return;
    }
    next_read = next[SLOT_READ].read;
    next_write = next[SLOT_WRITE].write;
    next_seek = next[SLOT_SEEK].seek;
    next_close = next[SLOT_CLOSE].close;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        void** table = dlsym(RTLD_DEFAULT, tables[i]);
        bool known = table != NULL;
        for (int slot = SLOT_READ; known && slot < SLOTS; slot++)
            known = table[slot] == next[slot].data;
        if (known) hook(table);
    }
}
