// Touches pages on node 0 of a guest, reads them on processor 1, or on both, for some seconds of
// its own running time, and prints how many of them then lie on each node. Static, so that a guest
// needs no libraries.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 1 << 16 };

static char* pages;
static size_t count;
static double seconds;
static volatile long sum;

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) exit(2);
}

static double running(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void* reads(void* cpu) {
    run_on((int)(size_t)cpu);
    while (running() < seconds)
        for (size_t i = 0; i < count; ++i) sum += pages[i * PAGE];
    return NULL;
}

int main(int argc, char** argv) {
    if (argc < 4) return 1;
    const int is_shared = strcmp(argv[1], "shared") == 0;
    count = strtoul(argv[2], NULL, 10), seconds = atof(argv[3]);
    if (count > MOST) return 1;
    run_on(0);
    pages = mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 3;
    madvise(pages, count * PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < count; ++i) pages[i * PAGE] = 1;
    pthread_t other;
    if (is_shared && pthread_create(&other, NULL, reads, (void*)0)) return 4;
    reads((void*)1);
    if (is_shared) pthread_join(other, NULL);
    static void* addresses[MOST];
    static int nodes[MOST];
    size_t on_node[2] = {0, 0};
    for (size_t i = 0; i < count; ++i) addresses[i] = pages + i * PAGE;
    if (syscall(SYS_move_pages, 0, count, addresses, NULL, nodes, 0)) return 5;
    for (size_t i = 0; i < count; ++i) ++on_node[nodes[i] == 1];
    printf("%zu %zu\n", on_node[0], on_node[1]);
    return 0;
}
