/* Copies one array to another, 8 bytes at a time: copy [MiB [times]]. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    const size_t n = (size_t)(argc > 1 ? atoi(argv[1]) : 1) << 17;
    const int times = argc > 2 ? atoi(argv[2]) : 1;
    double* from = malloc(n * sizeof *from);
    double* to = malloc(n * sizeof *to);
    for (size_t i = 0; i < n; ++i) from[i] = (double)i;
    for (int time = 0; time < times; ++time)
        for (size_t i = 0; i < n; ++i) to[i] = from[i];
    printf("%g\n", to[n - 1]);
    return 7;
}
