// Touches pages on a guest's NUMA nodes in many ways, and prints the node of each page.
//
// A line a way: its name, the number of the first page, the pages in a unit, and node x count ...
// in the order of addresses (of first touches for "spill"). Static, so that a guest needs no
// libraries.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOCAL = 0, PREFERRED = 1, BIND = 2, INTERLEAVE = 3, PREFERRED_MANY = 5, WEIGHTED = 6 };
enum { PAGE = 4096, HUGE = 2 << 20, MOST = 1 << 19 };

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) exit(2);
}

static char* fresh(size_t bytes) {
    char* const at =
        mmap(0, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(3);
    return (char*)(((size_t)at + HUGE - 1) / HUGE * HUGE);
}

static void print_nodes(const char* name, char* at, size_t pages) {
    static void* addresses[MOST];
    static int nodes[MOST];
    if (pages > MOST) exit(4);
    for (size_t i = 0; i < pages; ++i) addresses[i] = at + i * PAGE;
    if (syscall(SYS_move_pages, 0, pages, addresses, NULL, nodes, 0)) exit(5);
    printf("%s %zu", name, (size_t)at / PAGE);
    for (size_t i = 0, j = 0; i < pages; i = j) {
        while (j < pages && nodes[j] == nodes[i]) ++j;
        printf(" %dx%zu", nodes[i], j - i);
    }
    printf("\n");
}

static void touch(char* at, size_t pages) {
    for (size_t i = 0; i < pages; ++i) at[i * PAGE] = 1;
}

static int policy(char* at, size_t bytes, int mode, unsigned long nodes) {
    return (int)syscall(SYS_mbind, at, bytes, mode, &nodes, 8 * sizeof nodes, 0);
}

static void by_policy(const char* name, int cpu, int mode, unsigned long nodes, size_t pages,
                      int huge) {
    char* const at = fresh(pages * PAGE);
    madvise(at, pages * PAGE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (policy(at, pages * PAGE, mode, nodes)) {
        printf("%s refused\n", name);
        return;
    }
    run_on(cpu);
    touch(at, pages);
    print_nodes(name, at, pages);
    munmap(at, pages * PAGE);
}

// Pages of the hugetlb pools: those of a CPU's thread, bound to a node, preferred there, and
// interleaved ones.
static void pooled(const char* name, int cpu, int mode, unsigned long nodes, size_t pages) {
    char* const at = mmap(0, pages * HUGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (at == MAP_FAILED || policy(at, pages * HUGE, mode, nodes)) exit(6);
    run_on(cpu);
    for (size_t i = 0; i < pages; ++i) at[i * HUGE] = 1;
    print_nodes(name, at, pages * (HUGE / PAGE));
    munmap(at, pages * HUGE);
}

// Waits until khugepaged has made one page of 2 MiB of small ones: `first` on node 0, then others
// on the last node.
static void collapsed(int nodes, size_t first) {
    char* const at = fresh(HUGE);
    madvise(at, HUGE, MADV_NOHUGEPAGE);
    run_on(0);
    touch(at, first);
    run_on(nodes - 1);
    touch(at + first * PAGE, HUGE / PAGE - first);
    print_nodes("small", at, HUGE / PAGE);
    madvise(at, HUGE, MADV_HUGEPAGE);
    for (int tries = 0; tries < 500; ++tries) {
        unsigned long flags = 0, entry = 0;
        FILE* const map = fopen("/proc/self/pagemap", "rb");
        FILE* const all = fopen("/proc/kpageflags", "rb");
        if (!map || !all) exit(7);
        fseek(map, (long)((size_t)at / PAGE * 8), SEEK_SET);
        if (fread(&entry, 8, 1, map) != 1) exit(8);
        fseek(all, (long)((entry & ((1ul << 55) - 1)) * 8), SEEK_SET);
        if (fread(&flags, 8, 1, all) != 1) exit(9);
        fclose(map);
        fclose(all);
        if (flags >> 22 & 1) {  // KPF_THP
            print_nodes("collapsed", at, HUGE / PAGE);
            return;
        }
        usleep(20000);
    }
    printf("collapsed refused\n");
}

int main(int count, char** words) {
    const int nodes = count > 1 ? atoi(words[1]) : 2;
    const size_t spill = count > 2 ? strtoul(words[2], NULL, 10) : 0;
    char name[64];
    if (count > 2 && strcmp(words[2], "pools") == 0) {
        const size_t pages = strtoul(words[3], NULL, 10);
        for (int cpu = 0; cpu < nodes; ++cpu) {
            sprintf(name, "local-%d", cpu);
            pooled(name, cpu, LOCAL, 0, pages);
            sprintf(name, "bind-%d", cpu);
            pooled(name, 0, BIND, 1ul << cpu, 2);
            sprintf(name, "many-%d", cpu);
            pooled(name, 0, PREFERRED_MANY, 1ul << cpu, pages);
        }
        pooled("interleave", 0, INTERLEAVE, (1ul << nodes) - 1, 4);
        return 0;
    }
    if (count > 2 && strcmp(words[2], "collapsed") == 0) {
        collapsed(nodes, strtoul(words[3], NULL, 10));
        return 0;
    }
    if (spill > 0) {  // one way a process, because it leaves a mark on all nodes
        const int cpu = atoi(words[3]);
        char* const at = fresh(spill * PAGE);
        madvise(at, spill * PAGE, MADV_NOHUGEPAGE);
        run_on(cpu);
        touch(at, spill);
        print_nodes("spill", at, spill);
        return 0;
    }
    for (int cpu = 0; cpu < nodes; ++cpu) {
        sprintf(name, "local-%d", cpu);
        by_policy(name, cpu, LOCAL, 0, 500, 0);
        sprintf(name, "huge-%d", cpu);
        by_policy(name, cpu, LOCAL, 0, 1024, 1);
        sprintf(name, "preferred-%d", cpu);
        by_policy(name, (cpu + 1) % nodes, PREFERRED, 1ul << cpu, 300, 0);
        for (unsigned long mask = 1; mask < 1ul << nodes; ++mask) {
            sprintf(name, "bind-%d-%lu", cpu, mask);
            by_policy(name, cpu, BIND, mask, 70, 0);
            sprintf(name, "many-%d-%lu", cpu, mask);
            by_policy(name, cpu, PREFERRED_MANY, mask, 70, 0);
        }
    }
    for (unsigned long mask = 1; mask < 1ul << nodes; ++mask) {
        sprintf(name, "interleave-%lu", mask);
        by_policy(name, 0, INTERLEAVE, mask, 701, 0);
        sprintf(name, "weighted-%lu", mask);
        by_policy(name, 0, WEIGHTED, mask, 701, 0);
    }
    sprintf(name, "interleavehuge-%lu", (1ul << nodes) - 1);
    by_policy(name, 0, INTERLEAVE, (1ul << nodes) - 1, 8 * 512, 1);

    char* at = fresh(400 * PAGE);  // serial, and in parallel by parts
    madvise(at, 400 * PAGE, MADV_NOHUGEPAGE);
    for (int part = 0; part < nodes; ++part) {
        run_on(part);
        touch(at + part * (400 / nodes) * (size_t)PAGE, 400 / nodes);
    }
    print_nodes("parallel", at, 400 / nodes * nodes);
    at = fresh(100 * PAGE);  // read by one, written by another
    madvise(at, 100 * PAGE, MADV_NOHUGEPAGE);
    run_on(0);
    volatile char sum = 0;
    for (int i = 0; i < 100; ++i) sum += at[i * PAGE];
    run_on(nodes - 1);
    touch(at, 100);
    print_nodes("written", at, 100);
    run_on(0);  // given back and touched by another: afresh
    madvise(at, 100 * PAGE, MADV_DONTNEED);
    touch(at, 100);
    print_nodes("again", at, 100);
    return 0;
}
