/* One thread maps the same four pages again and again while two others write to them, a line each,
 * in turns: every time all four pages are new. Meanwhile the writers use other lines of the same
 * sets. Built with -DKEEP nothing is mapped anew. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

enum { page = 4096, pages = 4, rounds = 500, writers = 2 };

static char* place;
static pthread_barrier_t barrier;
static char busy[writers][64 * 64] __attribute__((aligned(4096)));

static char* map(int flags) {
    return mmap(place, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                -1, 0);
}

static void* write_to_them(void* own) {
    for (int round = 0; round < rounds; ++round) {
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < pages; ++i) *(volatile char*)(place + i * page) = 1;
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 16 * 64; i += 64) ((volatile char*)own)[i] = 1; /* while they go */
    }
    return 0;
}

int main(void) {
    place = map(0);
    pthread_barrier_init(&barrier, 0, writers + 1);
    pthread_t threads[writers];
    for (int i = 0; i < writers; ++i) pthread_create(&threads[i], 0, write_to_them, busy[i]);
    int failed = place == MAP_FAILED;
    for (int round = 0; round < rounds; ++round) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
#ifndef KEEP
        failed |= munmap(place, pages * page) != 0 || map(MAP_FIXED) != place;
#endif
    }
    for (int i = 0; i < writers; ++i) pthread_join(threads[i], 0);
    return failed;
}
