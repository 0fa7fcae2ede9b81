// Threads that count, each in an element of its own: counters DISTANCE THREADS ROUNDS. The elements
// lie DISTANCE bytes apart, so they share lines if that is less than 64. All threads count once
// before they count ROUNDS times, so that each has come to its line before any thread is done.
#include <pthread.h>
#include <stdlib.h>

static volatile char* counters;
static long distance, rounds;
static pthread_barrier_t all_there;

static void* count(void* number) {
    volatile long* mine = (volatile long*)(counters + (long)number * distance);
    pthread_barrier_wait(&all_there);
    ++*mine;
    pthread_barrier_wait(&all_there);
    for (long i = 0; i < rounds; ++i) ++*mine;
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    distance = atol(argv[1]);
    const long threads = atol(argv[2]);
    rounds = atol(argv[3]);
    counters = aligned_alloc(4096, 1 << 20);
    pthread_t* ids = malloc(threads * sizeof *ids);
    pthread_barrier_init(&all_there, NULL, threads);
    for (long i = 1; i < threads; ++i) pthread_create(&ids[i], NULL, count, (void*)i);
    count((void*)0);
    for (long i = 1; i < threads; ++i) pthread_join(ids[i], NULL);
    return 0;
}
