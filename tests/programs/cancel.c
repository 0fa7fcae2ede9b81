/* Threads that another one cancels, and that can be cancelled between two rounds alone. Exits with
 * the number of rounds that were not ended, at most 100. Built with -DAT_ONCE they are cancelled as
 * soon as they are there. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINES = 1 << 16, LINE = 64, THREADS = 3, TIMES = 8 };

static int unended;

static void count(void* in_round) { unended += *(volatile int*)in_round; }

static void* work(void* memory) {
    volatile char* bytes = memory;
    volatile int in_round = 0;
    pthread_cleanup_push(count, (void*)&in_round);
    for (;;) {
        in_round = 1;
        for (long i = 0; i < LINES; ++i) bytes[i * 521 % LINES * LINE]++;
        in_round = 0;
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    for (int time = 0; time < TIMES; ++time) {
        pthread_t threads[THREADS];
        char* memory[THREADS];
        for (int i = 0; i < THREADS; ++i) {
            memory[i] = calloc(LINES, LINE);
            pthread_create(&threads[i], NULL, work, memory[i]);
        }
#ifndef AT_ONCE
        usleep(20000);
#endif
        for (int i = 0; i < THREADS; ++i) {
            pthread_cancel(threads[i]);
            pthread_join(threads[i], NULL);
            free(memory[i]);
        }
    }
    return unended < 100 ? unended : 100;
}
