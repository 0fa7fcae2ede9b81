// Eight threads: a reduction, an ordered loop, tasks, locks and barriers.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long fibonacci(int n) {
    if (n < 2) return n;
    long a, b;
#pragma omp task shared(a) if (n > 12)
    a = fibonacci(n - 1);
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void) {
    enum { n = 200000 };
    double *a = malloc(n * sizeof *a), sum = 0;
    long f = 0, counted = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < n; ++i) a[i] = i % 17;
        for (int round = 0; round < 5; ++round) {
#pragma omp for reduction(+ : sum)
            for (int i = 1; i < n; ++i) sum += a[i] * a[i - 1];
#pragma omp critical
            ++counted;
        }
#pragma omp single
        f = fibonacci(18);
    }
#pragma omp parallel for ordered schedule(dynamic)
    for (int i = 0; i < 8; ++i) {
#pragma omp ordered
        printf("%d ", i);
    }
    printf("%d threads, %.0f, %ld, %ld\n", omp_get_max_threads(), sum, f, counted);
    return 0;
}
