/* One thread initialises an array, and threads read equal parts of it: serial_touch THREADS SWEEPS.
 * With a third argument it prints how many of the array's pages lie on each of two nodes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 16 << 20, LINE = 64, PAGE = 4096, MOST_THREADS = 64 };

static int threads, sweeps;
static char* array;
static pthread_barrier_t all_here; /* so that all threads live at the same time */

static void* read_part(void* number) {
    const size_t part = BYTES / (size_t)threads;
    const char* from = array + (size_t)number * part;
    long sum = 0;
    pthread_barrier_wait(&all_here);
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (size_t at = 0; at < part; at += LINE) sum += from[at];
    pthread_barrier_wait(&all_here);
    return (void*)sum;
}

static void say_pages(void) {
    size_t on[2] = {0, 0}, in_turn = 0, last = 2;
    for (size_t at = 0; at < BYTES; at += PAGE) {
        void* page = array + at;
        int node = -1;
        syscall(SYS_move_pages, 0, 1, &page, NULL, &node, 0);
        if (node < 0 || node > 1) continue;
        on[node]++;
        in_turn += (size_t)node != last;
        last = (size_t)node;
    }
    printf("%zu %zu %zu\n", on[0], on[1], in_turn);
}

int main(int count, char** words) {
    threads = count > 1 ? atoi(words[1]) : 2;
    sweeps = count > 2 ? atoi(words[2]) : 1;
    if (threads < 1 || threads > MOST_THREADS) return 2;
    array = malloc(BYTES);
    if (array == NULL) return 1;
    memset(array, 1, BYTES);
    pthread_t running[MOST_THREADS];
    pthread_barrier_init(&all_here, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++)
        pthread_create(&running[i], NULL, read_part, (void*)(size_t)i);
    read_part(NULL);
    for (int i = 1; i < threads; i++) pthread_join(running[i], NULL);
    if (count > 3) say_pages();
    return 0;
}
