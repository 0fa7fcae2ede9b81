/* Each step has a temporary of 1 MiB that is given back by the way named: free, discard, brk,
 * remap. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "free";
    mallopt(M_MMAP_THRESHOLD, BYTES / 2); /* and not more after the first free */
    char* kept = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* place = mmap(0, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int step = 0; step < 20; ++step) {
        char* block = !strcmp(way, "free")  ? malloc(BYTES)
                      : !strcmp(way, "brk") ? sbrk(BYTES)
                                            : kept;
        for (int i = 0; i < BYTES; i += 8) *(volatile long*)(block + i) = step;
        if (!strcmp(way, "free")) free(block);
        if (!strcmp(way, "brk")) sbrk(-BYTES);
        if (!strcmp(way, "discard")) madvise(kept, BYTES, MADV_DONTNEED);
        if (!strcmp(way, "remap")) { /* over the last one, whose frames go */
            mremap(kept, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            kept = mmap(kept, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
    }
    return 0;
}
