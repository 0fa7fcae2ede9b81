/* Two arrays, each initialised by a function of its own: two_writers. Both are read afterwards. */
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 1 << 19 }; /* 4 MiB an array */
#define APART __attribute__((noinline, noclone))

APART static void count_up(long* array) {
    for (long i = 0; i < ELEMENTS; i++) array[i] = i; /* first */
}

APART static void halve(double* array) {
    for (long i = 0; i < ELEMENTS; i++) array[i] = (double)i / 2; /* second */
}

static void* take(size_t bytes) {
    void* block = malloc(bytes);
    if (block == NULL) exit(1);
    return block;
}

int main(void) {
    long* const whole = take(ELEMENTS * sizeof(long));
    double* const half = take(ELEMENTS * sizeof(double));
    count_up(whole);
    halve(half);
    double sum = 0;
    for (long i = 0; i < ELEMENTS; i++) {
        sum += half[i] + (double)whole[i];
        whole[i] = 0; /* not the first write */
    }
    return sum < 0;
}
