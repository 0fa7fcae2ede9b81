#define _GNU_SOURCE
#include "iorecord/operation.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/files.h"
#include "iorecord/log.h"
#include "iorecord/process.h"

/* The processor clock is a system call. Where the thread's last operation ended a moment ago, the
 * thread has most likely run since, and its clock moved as the wall's did. */
enum { MOMENT_NS = 2000 };

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    uint64_t wall_ns, cpu_ns;
} last_end;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct operation begun(void) {
    struct operation operation = {.recorded = true};
    const uint64_t wall = clock_ns(CLOCK_MONOTONIC);
    const uint64_t gap = wall - last_end.wall_ns;
    operation.wall_ns = wall;
    operation.cpu_ns =
        gap < MOMENT_NS ? last_end.cpu_ns + gap : clock_ns(CLOCK_THREAD_CPUTIME_ID);
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

static void end(const struct operation* operation, const struct request* request, int64_t result) {
    const uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct record* record = log_take(0);
    last_end.wall_ns = wall;
    last_end.cpu_ns = cpu;
    if (record == NULL) return;
    record->start_ns = operation->wall_ns;
    record->wall_ns = wall - operation->wall_ns;
    record->cpu_ns = cpu > operation->cpu_ns ? cpu - operation->cpu_ns : 0;
    record->offset = request->offset;
    record->size = request->size;
    record->result = result;
    record->address = (uint64_t)(uintptr_t)request->address;
    record->descriptor = request->descriptor;
    record->flags = request->flags;
    record->buffers = request->buffers;
    log_publish(record, request->kind);
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
