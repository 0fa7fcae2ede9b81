/*
 * Threads that allocate and free blocks of all sizes at random, hand them to each other, and look
 * whether what they wrote is still there: blocks THREADS STEPS [FORKS [SECONDS]]. Prints a checksum
 * that depends on the first two only. With FORKS, children verify and change all blocks meanwhile;
 * with SECONDS, all of it is done again, in the same memory, until as many are over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <unistd.h>
#include "../../hooks/pagelens.h"

enum { SLOTS = 12, STRIDE = 997 };
#ifdef __SANITIZE_THREAD__
enum { WAYS = 1 /* it does not see where mremap moves memory to */ };
#else
enum { WAYS = 3 };
#endif

struct block {
    unsigned char* at;
    size_t size;
    unsigned char mark;
};

static long steps;
static size_t large;             /* from where errno must stay as it is; 0: nowhere */
static unsigned long fork_marks; /* odd while the process forks; atomic */
static pthread_mutex_t exchange = PTHREAD_MUTEX_INITIALIZER;
static struct block shared;

static void fail(const char* what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static uint64_t draw(uint64_t* state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The ends, and places between. */
static void write_marks(struct block* block) {
    for (size_t i = 0; i < block->size; i += STRIDE)
        block->at[i] = (unsigned char)(block->mark + i);
    if (block->size) block->at[block->size - 1] = block->mark;
}

static void check_marks(const struct block* block, size_t upto) {
    for (size_t i = 0; i < upto; i += STRIDE)
        if (i + 1 != block->size && block->at[i] != (unsigned char)(block->mark + i))
            fail("a block has lost what was written");
    if (upto == block->size && upto && block->at[upto - 1] != block->mark)
        fail("a block has lost its last byte");
}

static size_t draw_size(uint64_t* state) {
    const uint64_t bits = draw(state) % 23; /* up to 4 MiB */
    const size_t size = draw(state) % (UINT64_C(2) << bits);
#ifdef __SANITIZE_THREAD__ /* says that a block of none has one byte, and that reading it is wrong \
                            */
    if (size == 0) return 1;
#endif
    return size;
}

static void check_new(const struct block* block, size_t alignment) {
    if (block->at == NULL) fail("no block");
    if ((uintptr_t)block->at % alignment) fail("a block is not aligned");
    if (malloc_usable_size(block->at) < block->size) fail("a block is too small");
}

static struct block take(uint64_t* state) {
    struct block block = {NULL, draw_size(state), (unsigned char)draw(state)};
    const size_t alignment = (size_t)16 << draw(state) % 9;
    const unsigned long marks = __atomic_load_n(&fork_marks, __ATOMIC_SEQ_CST);
    errno = 77;
    switch (draw(state) % 4) {
        case 0:
            block.at = calloc(block.size / 8 + 1, 8);
            for (size_t i = 0; i < block.size; i += 61)
                if (block.at[i]) fail("calloc gave a byte that is not zero");
            check_new(&block, block.size < 16 ? 8 : 16);
            break;
        case 1: {
            void* at = NULL;
            if (posix_memalign(&at, alignment, block.size)) fail("no aligned block");
            block.at = at;
            check_new(&block, alignment);
            break;
        }
        default:
            block.at = malloc(block.size);
            check_new(&block, block.size < 16 ? 8 : 16); /* of jemalloc and tcmalloc */
    }
    /* glibc may change errno although it succeeds. The library must not, and large blocks are from
     * the library, except while the process forks. */
    const int forked = marks % 2 || marks != __atomic_load_n(&fork_marks, __ATOMIC_SEQ_CST);
    if (errno != 77 && large && block.size >= large && !forked) fail("errno has changed");
    write_marks(&block);
    return block;
}

static void resize(struct block* block, uint64_t* state) {
    struct block next = {NULL, draw_size(state) + 1, block->mark};
    next.at = realloc(block->at, next.size);
    if (next.at == NULL) fail("no block from realloc");
    const size_t both = next.size < block->size ? next.size : block->size;
    block->at = next.at;
    check_marks(block, both == block->size ? both : both ? both - 1 : 0);
    *block = next;
    write_marks(block);
}

static uint64_t give(struct block* block) {
    if (block->at == NULL) return 0;
    check_marks(block, block->size);
    errno = 77;
    free(block->at);
    if (errno != 77) fail("free has changed errno");
    block->at = NULL;
    return block->size;
}

/* A mapping of which parts go, or that grows, moves and shrinks with what was written. */
__attribute__((noinline)) static void map_pages(uint64_t* state) {
    enum { PAGE = 4096 };
    const size_t pages = 4 + draw(state) % 60, bytes = pages * PAGE;
    size_t kept = pages;
    unsigned char* at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("no mapping");
    for (size_t i = 0; i < pages; i++) at[i * PAGE] = (unsigned char)(i + 1);
    switch (draw(state) % WAYS) {
        case 0: /* a hole within, and the end */
            if (munmap(at + PAGE, PAGE) || munmap(at + bytes - PAGE, PAGE)) fail("no munmap");
            if (at[0] != 1 || at[2 * PAGE] != 3) fail("a mapping has lost what was written");
            kept = 1;
            if (munmap(at + 2 * PAGE, bytes - 3 * PAGE)) fail("no munmap of the rest");
            break;
        case 1:
            at = mremap(at, bytes, 2 * bytes, MREMAP_MAYMOVE);
            if (at == MAP_FAILED) fail("a mapping does not grow");
            memset(at + bytes, 1, bytes);
            kept = 2 * pages;
            break;
        default:
            if (mremap(at, bytes, 2 * PAGE, 0) != at) fail("a mapping does not shrink");
            kept = 2;
    }
    for (size_t i = 0; i < kept && i < pages; i++)
        if (at[i * PAGE] != (unsigned char)(i + 1)) fail("a mapping has lost its bytes");
    if (munmap(at, kept * PAGE)) fail("no munmap at the end");
}

static void* work(void* number) {
    uint64_t state = (uintptr_t)number;
    uint64_t sum = 0;
    struct block blocks[SLOTS] = {{NULL, 0, 0}};
    uint64_t of_mappings = state;
    for (long step = 0; step < steps; step++) {
        if (step % 8 == 0) map_pages(&of_mappings);
        if (step % 16 == 3) pagelens_region_begin(step % 32 == 3 ? "one" : "two");
        if (step % 16 == 9) pagelens_region_end(step % 32 == 9 ? "one" : "two");
        struct block* block = &blocks[draw(&state) % SLOTS];
        const uint64_t what = draw(&state) % 8;
        if (block->at && what < 2) {
            resize(block, &state);
        } else if (block->at && what == 2) {
            pthread_mutex_lock(&exchange);
            const struct block mine = *block;
            *block = shared;
            shared = mine;
            pthread_mutex_unlock(&exchange);
        } else {
            give(block);
            *block = take(&state);
            sum += block->size;
        }
    }
    for (int i = 0; i < SLOTS; i++) give(&blocks[i]);
    return (void*)(uintptr_t)sum;
}

/* Blocks that a child reads and overwrites, and that have not changed here afterwards. */
static void fork_children(long forks) {
    enum { COUNT = 6 };
    uint64_t state = 1;
    struct block blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = (struct block){NULL, ((size_t)1 << 20) * (size_t)(i + 1) + draw(&state) % 5000,
                                   (unsigned char)i};
        blocks[i].at = malloc(blocks[i].size);
        write_marks(&blocks[i]);
    }
    for (long child = 0; child < forks; child++) {
        __atomic_fetch_add(&fork_marks, 1, __ATOMIC_SEQ_CST);
        const pid_t pid = fork();
        __atomic_fetch_add(&fork_marks, 1, __ATOMIC_SEQ_CST);
        if (pid == 0) {
            for (int i = 0; i < COUNT; i++) {
                check_marks(&blocks[i], blocks[i].size);
                memset(blocks[i].at, 0xee, blocks[i].size);
            }
            struct block more = take(&state);
            give(&more);
            for (int i = 0; i < COUNT; i++) free(blocks[i].at);
            _exit(3);
        }
        for (int i = 0; i < COUNT; i++) {
            blocks[i].mark++;
            write_marks(&blocks[i]);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) fail("a child has failed");
        for (int i = 0; i < COUNT; i++) check_marks(&blocks[i], blocks[i].size);
    }
    for (int i = 0; i < COUNT; i++) give(&blocks[i]);
}

static uint64_t round_of(pthread_t* all, long threads, long forks) {
    if (forks) fork_children(forks); /* of a process with one thread */
    uint64_t sum = 0, first = 0;
    shared = take(&first); /* so that who takes it never gets none */
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, (void*)(i + 1))) fail("no thread");
    if (forks) fork_children(forks); /* of one with several */
    for (long i = 0; i < threads; i++) {
        void* of_thread;
        pthread_join(all[i], &of_thread);
        sum += (uintptr_t)of_thread;
    }
    give(&shared);
    return sum;
}

int main(int words, char** word) {
    const long threads = words > 1 ? atol(word[1]) : 4;
    steps = words > 2 ? atol(word[2]) : 1000;
    if (getenv("PAGELENS_RUN")) large = 1 << 20;
    pthread_t* all = calloc((size_t)threads + 1, sizeof *all);
    const long forks = words > 3 ? atol(word[3]) : 0;
    const time_t end = time(NULL) + (words > 4 ? atol(word[4]) : 0);
    const uint64_t sum = round_of(all, threads, forks);
    while (time(NULL) < end)
        if (round_of(all, threads, forks) != sum) fail("a round did something else");
    free(all);
    printf("%llu bytes\n", (unsigned long long)sum);
    return 0;
}
