#define _GNU_SOURCE
#include "preload/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Documentation/admin-guide/mm/pagemap.rst of Linux */
#define PRESENT (UINT64_C(1) << 63)
#define FRAME ((UINT64_C(1) << 55) - 1)

bool pagemap_read(uintptr_t start, size_t pages, uint64_t* frames) {
    const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    size_t done = 0;
    while (done < pages * sizeof *frames) {
        const off_t at = (off_t)(start / FRAME_BYTES * sizeof *frames + done);
        const ssize_t got = pread(file, (char*)frames + done, pages * sizeof *frames - done, at);
        if (got <= 0 && !(got < 0 && errno == EINTR)) break;
        if (got > 0) done += (size_t)got;
    }
    close(file);
    for (size_t i = 0; i < done / sizeof *frames; i++)
        frames[i] = frames[i] & PRESENT ? frames[i] & FRAME : 0;
    return done == pages * sizeof *frames;
}

bool pagemap_readable(void) {
    volatile char here = 1; /* this page of the stack has a frame */
    uint64_t frame;
    return here && pagemap_read((uintptr_t)&here, 1, &frame) && frame != 0;
}
