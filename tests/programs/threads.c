/* Four threads, twice or as often as the argument says: each fills an array of its own and meets
 * the others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t barrier;

static void* work(void* sum) {
    double* array = malloc(1 << 20);
    for (int i = 0; i < 1 << 17; ++i) array[i] = i;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 1 << 17; ++i) *(double*)sum += array[i];
    free(array);
    return 0;
}

int main(int count, char** arguments) {
    const int rounds = count > 1 ? atoi(arguments[1]) : 2;
    double sums[4] = {0};
    pthread_barrier_init(&barrier, 0, 4);
    for (int round = 0; round < rounds; ++round) {
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, work, &sums[i]);
        for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
    }
    printf("%g\n", sums[0] + sums[3]);
    return 0;
}
