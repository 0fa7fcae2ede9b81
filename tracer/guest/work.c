/*
 * Memory taken and given back as the lab wants it, so that a model of the allocator can be asked to
 * do the same. A region stands for a process of a job: page tables, order of first touches and of
 * frees are those of a process, but there is one process, which costs fewer pages of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/guest/tools.h"

enum { PAGE_BYTES = 4096, MOST_REGIONS = 4096 };

#define REGION_BYTES ((size_t)1 << 36) /* reserved, not taken */
#define DEVICE "/dev/nullb0"

static char* regions[MOST_REGIONS];

static char* region(uint32_t number) {
    if (number >= MOST_REGIONS) {
        errno = EINVAL;
        fail("work: region");
    }
    if (regions[number] == NULL) {
        regions[number] = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (regions[number] == MAP_FAILED) fail("work: mmap");
    }
    return regions[number];
}

static void read_pages(uint32_t count) {
    static int device = -1;
    static char page[PAGE_BYTES];
    if (device < 0) device = open(DEVICE, O_RDONLY);
    if (device < 0) fail(DEVICE);
    for (uint32_t i = 0; i < count; ++i) {
        if (read(device, page, sizeof page) != sizeof page) fail(DEVICE);
    }
}

static void do_step(const struct work_step* step) {
    char* const begin = region(step->region) + (size_t)step->begin * PAGE_BYTES;
    const size_t bytes = (size_t)step->count * PAGE_BYTES;
    switch (step->kind) {
        case WORK_TAKE:
            for (size_t at = 0; at < bytes; at += PAGE_BYTES) begin[at] = 1;
            break;
        case WORK_DROP:
            if (madvise(begin, bytes, MADV_DONTNEED) < 0) fail("work: madvise");
            break;
        case WORK_LEAVE:
            munmap(regions[step->region], REGION_BYTES);
            regions[step->region] = NULL;
            break;
        case WORK_READ:
            read_pages(step->count);
            break;
        default:
            errno = EINVAL;
            fail("work: step");
    }
}

int work(int argc, char** argv) {
    FILE* file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) fail("work");
    static struct work_step steps[256];
    for (size_t got; (got = fread(steps, sizeof *steps, 256, file)) > 0;) {
        for (size_t i = 0; i < got; ++i) do_step(&steps[i]);
    }
    return 0;
}
