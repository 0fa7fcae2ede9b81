// What the tests of zonesort run inside a guest; static, so that it needs nothing else there.
//
//   guest share BYTES CACHE_BYTES      maps and touches BYTES; prints "PAGES CONFLICTS": the pages
//                                      whose slot of a direct-mapped cache holds another of them
//   guest frames BYTES CACHE_BYTES     the same, and then the frame of each page, in order
//   guest age BYTES KEEP               touches BYTES, then gives the pages back in random order,
//   all
//                                      but every KEEP-th (0: all); prints "ready" and stays with
//                                      those until it is killed, or ends at once if it keeps none
//   guest stress PROCESSES ROUNDS      processes that fill pages with patterns of their own, check
//                                      them, free some in random order and begin again; prints
//                                      "PAGES checked" and fails at the first wrong word
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page_bytes = 4096, words_per_page = page_bytes / sizeof(uint64_t) };

static void fail(const char* what) {
    fprintf(stderr, "guest: %s: %s\n", what, strerror(errno));
    exit(1);
}

// With an M at the end: MiB.
static uint64_t number(const char* text) {
    char* end;
    uint64_t value = strtoull(text, &end, 0);
    unsigned shift = *end == 'M' ? 20 : 0;
    if (end == text || end[shift != 0]) {
        errno = EINVAL;
        fail(text);
    }
    return value << shift;
}

// xorshift64*: a sequence of its own for each seed.
static uint64_t next_random(uint64_t* state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static unsigned char* map_pages(size_t bytes) {
    void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("mmap");
    if (madvise(at, bytes, MADV_NOHUGEPAGE) && errno != EINVAL) fail("madvise");
    return at;
}

// Fisher-Yates over page numbers.
static uint32_t* shuffled_pages(size_t pages, uint64_t seed) {
    uint32_t* order = malloc(pages * sizeof *order);
    if (!order) fail("malloc");
    for (size_t i = 0; i < pages; i++) order[i] = (uint32_t)i;
    for (size_t i = pages; i > 1; i--) {
        size_t j = next_random(&seed) % i;
        uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    return order;
}

static uint64_t frame_of(int pagemap, const void* at) {
    uint64_t entry;
    off_t offset = (off_t)((uintptr_t)at / page_bytes * sizeof entry);
    if (pread(pagemap, &entry, sizeof entry, offset) != sizeof entry) fail("pagemap");
    return entry & ((UINT64_C(1) << 55) - 1);
}

static void share(size_t bytes, size_t cache_bytes, int list_frames) {
    size_t pages = bytes / page_bytes, slots = cache_bytes / page_bytes, conflicts = 0;
    unsigned char* at = map_pages(bytes);
    uint16_t* in_slot = calloc(slots, sizeof *in_slot);
    uint32_t* slot = malloc(pages * sizeof *slot);
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (!in_slot || !slot || pagemap < 0) fail("set-up");
    for (size_t i = 0; i < pages; i++) at[i * page_bytes] = 1;
    for (size_t i = 0; i < pages; i++) {
        slot[i] = (uint32_t)(frame_of(pagemap, at + i * page_bytes) % slots);
        in_slot[slot[i]]++;
    }
    for (size_t i = 0; i < pages; i++) conflicts += in_slot[slot[i]] > 1;
    printf("%zu %zu\n", pages, conflicts);
    for (size_t i = 0; list_frames && i < pages; i++)
        printf("%" PRIu64 "\n", frame_of(pagemap, at + i * page_bytes));
}

static void age(size_t bytes, size_t keep) {
    size_t pages = bytes / page_bytes;
    unsigned char* at = map_pages(bytes);
    uint32_t* order = shuffled_pages(pages, 1);
    for (size_t i = 0; i < pages; i++) at[i * page_bytes] = 1;
    for (size_t i = 0; i < pages; i++)
        if ((keep == 0 || order[i] % keep) &&
            madvise(at + (size_t)order[i] * page_bytes, page_bytes, MADV_DONTNEED))
            fail("madvise");
    if (keep == 0) return;
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}

static void fill(uint64_t* page, uint64_t seed) {
    for (int i = 0; i < words_per_page; i++) page[i] = next_random(&seed);
}

static void check(const uint64_t* page, uint64_t seed) {
    for (int i = 0; i < words_per_page; i++)
        if (page[i] != next_random(&seed)) {
            fprintf(stderr, "guest: word %d of a page is not what was written\n", i);
            exit(1);
        }
}

// Each page holds a pattern of (process, page, times it was filled), so that a frame handed out
// twice shows as a wrong word in one of its two pages.
static uint64_t worker(uint64_t process, size_t rounds) {
    enum { most_pages = 2048 };
    uint64_t state = process * 0x9E3779B97F4A7C15u + 1, checked = 0;
    uint64_t seed[most_pages] = {0};  // 0: the page is not there
    uint64_t* pages = (uint64_t*)map_pages(most_pages * (size_t)page_bytes);
    for (size_t round = 0; round < rounds; round++) {
        size_t first = next_random(&state) % most_pages;
        size_t count = 1 + next_random(&state) % 512;
        for (size_t i = first; i < first + count; i++) {
            size_t page = i % most_pages;
            uint64_t* at = pages + page * words_per_page;
            if (seed[page]) {
                check(at, seed[page]);
                checked++;
                seed[page] = 0;
                if (madvise(at, page_bytes, MADV_DONTNEED)) fail("madvise");
            } else {
                seed[page] = next_random(&state) | 1;
                fill(at, seed[page]);
            }
        }
    }
    return checked;
}

static void stress(uint64_t processes, size_t rounds) {
    for (uint64_t i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0) fail("fork");
        if (child == 0) {
            printf("%" PRIu64 " checked\n", worker(i + 1, rounds));
            exit(0);
        }
    }
    for (uint64_t i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0) fail("wait");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "guest: a process of the stress ended with status %#x\n",
                    (unsigned)status);
            exit(1);
        }
    }
}

int main(int count, char** words) {
    const char* what = count == 4 ? words[1] : "";
    if (!strcmp(what, "share") || !strcmp(what, "frames"))
        share(number(words[2]), number(words[3]), !strcmp(what, "frames"));
    else if (!strcmp(what, "age"))
        age(number(words[2]), number(words[3]));
    else if (!strcmp(what, "stress"))
        stress(number(words[2]), number(words[3]));
    else {
        fprintf(stderr, "usage: guest share|frames|age|stress NUMBER NUMBER\n");
        return 2;
    }
    return 0;
}
