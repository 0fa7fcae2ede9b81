/* Threads get pages that others have just given back. Each allocates and frees large blocks. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TIMES = 100, BYTES = 256 << 10 };

static void* take(void* unused) {
    for (int i = 0; i < TIMES; i++) {
        char* const block = malloc(BYTES);
        memset(block, 1, BYTES);
        __asm__ volatile("" : : "r"(block) : "memory");
        free(block);
    }
    return unused;
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* so that each block is mapped, and unmapped by free() */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, take, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
