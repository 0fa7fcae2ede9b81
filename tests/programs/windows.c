// A long run for sampled traces: two regions in turn, arrays that are touched in the course of it,
// blocks of two call sites, and memory that comes and goes between two windows.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pagelens.h"

enum { mib = 1 << 20, rounds = 60 };

static long sum(const long* from, size_t bytes) {
    long all = 0;
    for (size_t i = 0; i < bytes / sizeof *from; ++i) all += from[i];
    return all;
}

static __attribute__((noinline)) long* small(void) { return malloc(4096); }

int main(void) {
    long *const grows = malloc(rounds * mib / 4), *const reads = malloc(mib);
    memset(reads, 1, mib);
    long all = 0;
    for (int round = 0; round < rounds; ++round) {
        pagelens_region_begin("grow");
        long* const part = grows + (long)round * mib / 4 / 8;
        for (int i = 0; i < mib / 4 / 8; ++i) part[i] = i ^ round;
        long* const blocks[2] = {small(), small()};
        blocks[0][1] = blocks[1][1] = round;
        all += blocks[0][1];
        free(blocks[0]);
        free(blocks[1]);
        char* const short_lived =
            mmap(NULL, mib / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(short_lived, round, mib / 8);
        munmap(short_lived, mib / 8);
        pagelens_region_end("grow");
        pagelens_region_begin("read");
        all += sum(reads, mib);
        pagelens_region_end("read");
    }
    printf("%ld\n", all);
    return 0;
}
