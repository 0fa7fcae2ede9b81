/*
 * Memory taken and given back as the lab wants it, so that a model of the allocator can be asked to
 * do the same. A region stands for a process of a job: page tables, order of first touches and of
 * frees are those of a process, but there is one process, which costs fewer pages of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tracer/guest/tools.h"
#include "tracer/guest/work_step.h"

enum { PAGE_BYTES = 4096, MOST_REGIONS = 4096, STEPS = 256, PAGEMAP_WORDS = 4096 };
enum { PIPE_PAGES = 256 }; /* the most that a pipe may have by default: pipe(7) */

#define DATA "/lab/disk/file" /* pagelens/lab/cached_file.py */

static struct region {
    char* begin;
    size_t pages; /* as many as the steps use */
} regions[MOST_REGIONS];

/* Each step of the file, in order. */
static void for_each_step(const char* path, void (*act)(const struct work_step*)) {
    FILE* file = fopen(path, "r");
    static struct work_step steps[STEPS];
    if (file == NULL) fail(path);
    for (size_t got; (got = fread(steps, sizeof *steps, STEPS, file)) > 0;) {
        for (size_t i = 0; i < got; ++i) act(&steps[i]);
    }
    fclose(file);
}

static void measure(const struct work_step* step) {
    if (step->region >= MOST_REGIONS) {
        errno = EINVAL;
        fail("work: region");
    }
    struct region* region = &regions[step->region];
    const size_t end = (size_t)step->begin + step->count;
    if (step->kind == WORK_TAKE && end > region->pages) region->pages = end;
}

static char* memory_of(uint32_t number) {
    struct region* region = &regions[number];
    if (region->begin == NULL) {
        region->begin = mmap(NULL, region->pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region->begin == MAP_FAILED) fail("work: mmap");
    }
    return region->begin;
}

static uint64_t words[PAGEMAP_WORDS];

/* Hands over the words of /proc/self/pagemap for all pages of all regions. */
static void look(void) {
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (pagemap < 0) fail("pagemap");
    for (size_t i = 0; i < MOST_REGIONS; ++i) {
        const size_t first = (uintptr_t)regions[i].begin / PAGE_BYTES;
        const size_t pages = regions[i].begin == NULL ? 0 : regions[i].pages;
        for (size_t page = 0; page < pages; page += PAGEMAP_WORDS) {
            const size_t left = pages - page;
            const size_t count = left < PAGEMAP_WORDS ? left : PAGEMAP_WORDS;
            const ssize_t got = pread(pagemap, words, count * sizeof *words,
                                      (off_t)((first + page) * sizeof *words));
            if (got != (ssize_t)(count * sizeof *words)) fail("pagemap");
            hand_over(words, (size_t)got);
        }
    }
    close(pagemap);
}

/* One after the other, but told to be random: so the kernel reads nothing ahead. */
static void read_pages(uint32_t begin, uint32_t count) {
    static int file = -1;
    static char page[PAGE_BYTES];
    if (file < 0) {
        file = open(DATA, O_RDONLY);
        if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) != 0) fail(DATA);
    }
    for (uint64_t i = begin; i < (uint64_t)begin + count; ++i) {
        if (pread(file, page, sizeof page, (off_t)(i * PAGE_BYTES)) != sizeof page) fail(DATA);
    }
}

/* The pages wait in pipes that nobody reads. So each has a reference that page migration finds, and
 * stays where it is. */
static void pin(char* begin, uint32_t count) {
    static int end = -1; /* of the pipe that has room */
    static uint32_t room;
    for (uint32_t page = 0; page < count; ++page, --room) {
        if (room == 0) {
            int ends[2];
            if (pipe(ends) < 0 || fcntl(ends[1], F_SETPIPE_SZ, PIPE_PAGES * PAGE_BYTES) < 0) {
                fail("work: pipe");
            }
            end = ends[1];
            room = PIPE_PAGES;
        }
        struct iovec one = {begin + (size_t)page * PAGE_BYTES, PAGE_BYTES};
        if (vmsplice(end, &one, 1, SPLICE_F_NONBLOCK) != PAGE_BYTES) fail("work: vmsplice");
    }
}

static void act(const struct work_step* step) {
    const size_t at = (size_t)step->begin * PAGE_BYTES, bytes = (size_t)step->count * PAGE_BYTES;
    struct region* region = &regions[step->region];
    switch (step->kind) {
        case WORK_TAKE:
            for (size_t i = 0; i < bytes; i += PAGE_BYTES) memory_of(step->region)[at + i] = 1;
            break;
        case WORK_DROP:
            if (madvise(memory_of(step->region) + at, bytes, MADV_DONTNEED) < 0) fail("madvise");
            break;
        case WORK_LEAVE:
            munmap(region->begin, region->pages * PAGE_BYTES);
            region->begin = NULL;
            break;
        case WORK_READ:
            read_pages(step->begin, step->count);
            break;
        case WORK_PIN:
            pin(memory_of(step->region) + at, step->count);
            break;
        case WORK_LOOK:
            look();
            break;
        default:
            errno = EINVAL;
            fail("work: step");
    }
}

int work(int argc, char** argv) {
    if (argc != 2) {
        errno = EINVAL;
        fail("work");
    }
    for_each_step(argv[1], measure);
    memset(words, -1, sizeof words); /* all pages of its own come before those of the work */
    for_each_step(argv[1], act);
    return 0;
}

int hold(int argc, char** argv) {
    int done[2];
    char byte = 0;
    if (pipe(done) < 0) fail("hold: pipe");
    const pid_t child = fork();
    if (child < 0) fail("hold: fork");
    if (child > 0) {
        close(done[1]);
        if (read(done[0], &byte, 1) == 1) return 0;
        errno = ECHILD; /* which has said why */
        fail("hold");
    }
    work(argc, argv);
    if (write(done[1], &byte, 1) != 1) fail("hold: pipe");
    close(done[1]);
    close(STDOUT_FILENO); /* which the agent reads to its end */
    close(STDERR_FILENO);
    for (;;) pause();
}
