/*
 * The thread's clock is a system call, which can take longer than an operation. But while a thread
 * runs, its clock moves as the wall's does, so the system call is needed only after the thread was
 * switched. The kernel counts this in a page that it shares with the owner of a perf event: the
 * page's `lock` changes whenever the event is scheduled. The event itself counts nothing.
 *
 * Where there can be no such event, an interval of less than a moment counts as run.
 */
#define _GNU_SOURCE
#include "iorecord/thread_clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/log.h"

/* An event takes some 20 us to open, which only threads with many operations earn back. */
enum { MOMENT_NS = 2000, MOST_ASSUMED_NS = 100000, FEW_CALLS = 64 };

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    const volatile struct perf_event_mmap_page* page; /* NULL: there is no event */
    uint64_t wall_ns, cpu_ns;                         /* when both were last known */
    uint64_t read_ns;                                 /* wall time of the last system call */
    uint32_t lock;
    unsigned calls;
    unsigned lifetime; /* of the log; a child of fork does not have its parent's page */
} own;

static const volatile struct perf_event_mmap_page* open_page(void) {
    struct perf_event_attr wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.type = PERF_TYPE_SOFTWARE;
    wanted.config = PERF_COUNT_SW_DUMMY;
    wanted.exclude_kernel = 1;
    wanted.exclude_hv = 1;
    const int event = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0) return NULL;
    void* page =
        (void*)syscall(SYS_mmap, NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, event, 0);
    syscall(SYS_close, event); /* the mapping keeps the event, and the program its descriptors */
    return page == MAP_FAILED ? NULL : page;
}

void thread_clock_ready(void) {
    if (__builtin_expect(own.lifetime == log_lifetime() && own.calls >= FEW_CALLS, 1)) return;
    if (own.lifetime != log_lifetime()) memset(&own, 0, sizeof own);
    own.lifetime = log_lifetime();
    if (++own.calls < FEW_CALLS) return;
    const int saved_errno = errno;
    own.page = open_page();
    own.read_ns = 0;
    errno = saved_errno;
}

/* Whether the thread has run since both times were last known. */
static bool has_run(uint64_t wall_ns) {
    if (own.read_ns == 0) return false;
    if (own.page) return own.page->lock == own.lock;
    return wall_ns - own.wall_ns < MOMENT_NS && wall_ns - own.read_ns < MOST_ASSUMED_NS;
}

uint64_t thread_clock_ns(uint64_t wall_ns) {
    if (__builtin_expect(has_run(wall_ns), 1)) {
        own.cpu_ns += wall_ns - own.wall_ns;
    } else {
        struct timespec now;
        if (own.page) own.lock = own.page->lock;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        own.cpu_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        own.read_ns = wall_ns;
    }
    own.wall_ns = wall_ns;
    return own.cpu_ns;
}
