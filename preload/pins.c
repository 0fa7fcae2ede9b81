#define _GNU_SOURCE
#include "preload/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

/* A pipe may have WIDE bytes with CAP_SYS_RESOURCE, else fs.pipe-max-size, which is usually USUAL.
 */
enum { PAGE_BYTES = 4096, WIDE = 64 << 20, USUAL = 1 << 20 };

/* Leaves the program half of the files that the process may open. */
static size_t most_pipes(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
    return files.rlim_cur / 2 < MOST_PIPES ? files.rlim_cur / 2 : MOST_PIPES;
}

static void close_full(struct pins* pins) {
    close(pins->into);
    pins->full[pins->count++] = pins->from;
    pins->room = 0;
}

static bool open_pipe(struct pins* pins) {
    int ends[2];
    if (pins->count >= most_pipes() || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    if (fcntl(ends[1], F_SETPIPE_SZ, WIDE) < 0) fcntl(ends[1], F_SETPIPE_SZ, USUAL);
    const int bytes = fcntl(ends[1], F_GETPIPE_SZ);
    pins->from = ends[0];
    pins->into = ends[1];
    pins->room = bytes > 0 ? (size_t)bytes / PAGE_BYTES : 1;
    return true;
}

size_t pins_hold(struct pins* pins, uintptr_t start, size_t bytes) {
    size_t held = 0;
    while (held < bytes) {
        if (pins->room == 0 && !open_pipe(pins)) break;
        size_t part = bytes - held;
        if (part > pins->room * PAGE_BYTES) part = pins->room * PAGE_BYTES;
        const struct iovec pages = {(void*)(start + held), part};
        const ssize_t took = vmsplice(pins->into, &pages, 1, SPLICE_F_NONBLOCK);
        if (took < 0 && errno == EINTR) continue;
        if (took <= 0 && errno != EAGAIN) break;
        if (took > 0) {
            held += (size_t)took;
            pins->room -= (size_t)took / PAGE_BYTES;
        }
        if (took <= 0 || pins->room == 0) close_full(pins);
    }
    return held;
}

void pins_release(struct pins* pins) {
    if (pins->room > 0) close_full(pins);
    for (size_t i = 0; i < pins->count; i++) close(pins->full[i]);
    pins->count = 0;
}
