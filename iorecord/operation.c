#define _GNU_SOURCE
#include "iorecord/operation.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/callers.h"
#include "iorecord/files.h"
#include "iorecord/log.h"
#include "iorecord/process.h"
#include "iorecord/thread_clock.h"

uint64_t wall_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct operation begun(void) {
    struct operation operation = {.recorded = true};
    thread_clock_ready();
    operation.wall_ns = wall_clock_ns();
    operation.cpu_ns = thread_clock_ns(operation.wall_ns);
    return operation;
}

struct operation operation_begin(int descriptor) {
    if (!log_is_open()) return (struct operation){0};
    file_seen(descriptor);
    return begun();
}

struct operation table_begin(void) {
    if (!log_is_open() || !in_own_process()) return (struct operation){0};
    return begun();
}

static void fill(struct record* record, const struct request* request) {
    record->offset = request->offset;
    record->size = request->size;
    record->address = (uint64_t)(uintptr_t)request->address;
    record->descriptor = request->descriptor;
    record->flags = request->flags;
    record->buffers = request->buffers;
    record->caller = caller_now();
}

static void end(const struct operation* operation, const struct request* request, int64_t result) {
    const uint64_t wall = wall_clock_ns(), cpu = thread_clock_ns(wall);
    struct record* record = log_take(0);
    if (record == NULL) return;
    fill(record, request);
    record->start_ns = operation->wall_ns;
    record->wall_ns = wall - operation->wall_ns;
    record->cpu_ns = cpu > operation->cpu_ns ? cpu - operation->cpu_ns : 0;
    record->result = result;
    log_publish(record, request->kind);
}

void operation_queued(const struct request* request, uint64_t begin_ns, const void* queue,
                      uint64_t key) {
    struct record* record = log_is_open() ? log_take(0) : NULL;
    if (record == NULL) return;
    fill(record, request);
    record->start_ns = begin_ns;
    record->QUEUED_IN = (uint64_t)(uintptr_t)queue;
    record->QUEUED_KEY = key;
    record->result = (int64_t)request->size;
    log_publish(record, request->kind);
}

void operation_done(const void* queue, uint64_t key, int64_t result) {
    struct record* record = log_is_open() ? log_take(0) : NULL;
    if (record == NULL) return;
    record->start_ns = wall_clock_ns();
    record->QUEUED_IN = (uint64_t)(uintptr_t)queue;
    record->QUEUED_KEY = key;
    record->result = result;
    log_publish(record, KIND_DONE);
}

void operation_end(const struct operation* operation, const struct request* request,
                   int64_t result) {
    if (!operation->recorded) return;
    const int saved_errno = errno;
    end(operation, request, result == -1 ? -saved_errno : result);
    errno = saved_errno;
}

void operation_end_error(const struct operation* operation, const struct request* request,
                         int error) {
    if (!operation->recorded) return;
    const int saved_errno = errno;
    end(operation, request, -error);
    errno = saved_errno;
}
