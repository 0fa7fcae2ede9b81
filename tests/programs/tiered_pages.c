// Fills memory with pages that it then leaves alone, writes as many others, and reads these for
// some seconds of its own running time. Prints how many of the first and of the others lie on nodes
// 0 and 1, before and afterwards. Static, so that a guest needs no libraries.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

static volatile long sum;

static char* written(size_t count) {
    char* const pages =
        mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(3);
    for (size_t i = 0; i < count; ++i) pages[i * PAGE] = 1;
    return pages;
}

static void print_nodes(char* pages, size_t count) {
    void** const addresses = malloc(count * sizeof *addresses);
    int* const nodes = malloc(count * sizeof *nodes);
    size_t on_node[2] = {0, 0};
    for (size_t i = 0; i < count; ++i) addresses[i] = pages + i * PAGE;
    if (count && syscall(SYS_move_pages, 0, count, addresses, NULL, nodes, 0)) exit(5);
    for (size_t i = 0; i < count; ++i) ++on_node[nodes[i] == 1];
    printf(" %zu %zu", on_node[0], on_node[1]);
    free(addresses);
    free(nodes);
}

static double running(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
    if (argc < 4) return 1;
    const size_t cold = strtoul(argv[1], NULL, 10), hot = strtoul(argv[2], NULL, 10);
    char* const left = written(cold);
    char* const used = written(hot);
    print_nodes(left, cold);
    print_nodes(used, hot);
    const double end = running() + atof(argv[3]);
    while (running() < end)
        for (size_t i = 0; i < hot; ++i) sum += used[i * PAGE];
    print_nodes(left, cold);
    print_nodes(used, hot);
    printf("\n");
    return 0;
}
