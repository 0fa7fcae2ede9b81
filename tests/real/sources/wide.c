// Sums with masks, gathers and conversions, which -march=x86-64-v4 turns into AVX-512.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { n = 100003 };
    double *a = malloc(n * sizeof *a), *b = calloc(n, sizeof *b);
    int* index = malloc(n * sizeof *index);
    for (int i = 0; i < n; ++i) a[i] = i % 31 - 7, index[i] = (int)((i * 7919L) % n);
    long chosen = 0;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < n; ++i) b[i] = a[index[i]] > 3 ? a[i] * 2 : b[i] * 0.5 + round;
        for (int i = 0; i < n; ++i) chosen += b[i] > a[i];
        for (int i = 0; i < n; ++i)
            if (a[i] < 0) a[i] += 1;
    }
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += a[i] + b[i];
    printf("%ld %.3f\n", chosen, sum);
    return 0;
}
