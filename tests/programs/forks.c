/*
 * Forks beside threads that allocate and map at sites of a plan and elsewhere, and beside handlers
 * of signals that map where they have interrupted the allocator: forks ROUNDS [THREADS]. A round is
 * a fork; children, and children of theirs, do the same once. Prints how many there were.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../hooks/pagelens.h"

#define OBJECT __attribute__((noinline, noclone))
enum { PAGE = 4096, HELD = 16, MOST_THREADS = 64 };

static volatile size_t zero;
static atomic_int over;
static atomic_int busy[MOST_THREADS]; /* the signalled thread may be interrupted */
static pthread_t threads[3 * MOST_THREADS];
static long thread_count = 2;

static void fail(const char* what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

OBJECT char* take_small(size_t bytes) { return (char*)malloc(bytes) + zero; }
OBJECT char* take_large(size_t bytes) { return (char*)malloc(bytes) + zero; }
OBJECT char* take_other(size_t bytes) { return (char*)malloc(bytes) + zero; }
OBJECT char* take_mapped(size_t bytes) {
    char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("no mapping");
    return at + zero;
}

static void map_and_unmap(size_t pages) {
    char* at = take_mapped(pages * PAGE);
    at[0] = at[pages * PAGE - 1] = 1;
    if (munmap(at, pages * PAGE)) fail("no munmap");
}

static void handler(int number) {
    (void)number;
    map_and_unmap(2);
}

/* In the midst of the next allocator's work most of the time: sizes that no cache of a thread has.
 */
static void* be_interrupted(void* number) {
    const size_t me = (size_t)number;
    char* held[HELD] = {0};
    atomic_store(&busy[me], 1);
    for (size_t step = 0; !atomic_load_explicit(&over, memory_order_relaxed); step++) {
        const size_t at = step % HELD, bytes = 1100 + step * 7919 % 30000;
        if (held[at] && held[at][0] != (char)at) fail("a block has lost its byte");
        free(held[at]);
        held[at] = take_other(bytes);
        held[at][0] = (char)at;
    }
    atomic_store(&busy[me], 0);
    for (int i = 0; i < HELD; i++) free(held[i]);
    return NULL;
}

static void* interrupt(void* nothing) {
    while (!atomic_load(&over))
        for (long i = 0; i < thread_count; i++)
            if (atomic_load(&busy[i])) pthread_kill(threads[i], SIGUSR1);
    return nothing;
}

struct held {
    char* at;
    size_t bytes;
};

static void give(struct held* one, char mark) {
    if (one->at == NULL) return;
    if (one->at[0] != mark || one->at[one->bytes - 1] != mark) fail("a block has lost its bytes");
    free(one->at);
    one->at = NULL;
}

static void take(struct held* one, size_t step, char mark) {
    one->bytes = step % 5 ? 16 + step % 2000 : (size_t)(8 + step % 64) * PAGE;
    one->at = step % 5 ? take_small(one->bytes) : take_large(one->bytes);
    one->at[0] = one->at[one->bytes - 1] = mark;
}

/* Everything that has an entry of ours, once. */
static void use(struct held* held, size_t step) {
    const size_t at = step % HELD;
    const char mark = (char)at;
    if (held[at].at && step % 7 == 0) {
        if (malloc_usable_size(held[at].at) < held[at].bytes) fail("a block is too small");
        char* now = realloc(held[at].at, held[at].bytes + 5000);
        if (now == NULL || now[0] != mark || now[held[at].bytes - 1] != mark) fail("no realloc");
        held[at].at = now;
        held[at].bytes += 5000;
        now[held[at].bytes - 1] = mark;
    } else {
        give(&held[at], mark);
        take(&held[at], step, mark);
    }
    if (step % 16 == 3) {
        char* mapped = take_mapped(4 * PAGE);
        memset(mapped, 1, 4 * PAGE);
        mapped = mremap(mapped, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
        if (mapped == MAP_FAILED || mapped[4 * PAGE - 1] != 1) fail("no mremap");
        munmap(mapped + PAGE, PAGE);
        munmap(mapped, 8 * PAGE);
    }
    if (step % 64 == 11) pagelens_region_begin(step % 128 == 11 ? "one" : "two");
    if (step % 64 == 31) pagelens_region_end(step % 128 == 31 ? "one" : "two");
}

static void* work(void* number) {
    struct held held[HELD] = {{NULL, 0}};
    const size_t first = (size_t)number;
    for (size_t step = first; !atomic_load_explicit(&over, memory_order_relaxed); step++)
        use(held, step);
    for (int i = 0; i < HELD; i++) give(&held[i], (char)i);
    return NULL;
}

static void wait_for(pid_t child, int expected, const char* otherwise) {
    int status = 0;
    if (child < 0) fail("no child");
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) fail(otherwise);
}

/* What a child has is as its parent's. */
static void use_in_child(struct held* mine) {
    for (size_t step = 1; step <= 64; step++) use(mine, step);
    map_and_unmap(3);
}

static void be_child(struct held* mine, bool has_child) {
    use_in_child(mine);
    if (has_child) {
        const pid_t child = fork();
        if (child == 0) {
            use_in_child(mine);
            _exit(4);
        }
        wait_for(child, 4, "a grandchild has failed");
    }
    for (int i = 0; i < HELD; i++) give(&mine[i], (char)i);
    _exit(3);
}

static void spawn(void) {
    char name[] = "true";
    char* const words[] = {name, NULL};
    pid_t child;
    if (posix_spawnp(&child, name, NULL, NULL, words, environ)) fail("no posix_spawn");
    wait_for(child, 0, "what was spawned has failed");
    child = vfork();
    if (child == 0) _exit(7);
    wait_for(child, 7, "vfork has failed");
}

int main(int words, char** word) {
    const long rounds = words > 1 ? atol(word[1]) : 100;
    if (words > 2) thread_count = atol(word[2]);
    if (thread_count < 1 || thread_count > MOST_THREADS) fail("1 to 64 threads");
    signal(SIGUSR1, handler);
    const long all = 2 * thread_count + 1;
    for (long i = 0; i < all; i++) {
        void* (*does)(void*) = i < thread_count ? be_interrupted : i + 1 < all ? work : interrupt;
        if (pthread_create(&threads[i], NULL, does, (void*)i)) fail("no thread");
    }
    sigset_t those;
    sigemptyset(&those);
    sigaddset(&those, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &those, NULL);
    struct held held[HELD] = {{NULL, 0}};
    for (long round = 0; round < rounds; round++) {
        use(held, (size_t)round);
        const pid_t child = fork();
        if (child == 0) be_child(held, round % 8 == 0);
        wait_for(child, 3, "a child has failed");
        if (round % 50 == 0) spawn();
    }
    atomic_store(&over, 1);
    for (long i = all - 1; i >= 0; i--) pthread_join(threads[i], NULL);
    for (int i = 0; i < HELD; i++) give(&held[i], (char)i);
    printf("%ld forks\n", rounds);
    return 0;
}
