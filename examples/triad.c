// The triad of STREAM, a = b + s c, on arrays of one size: the simplest program whose speed depends
// on whether its pages share slots of a memory-side cache. The answer is checked exactly.
//
//   triad [MiB per array = 16] [repeats = 5]
#include <stdio.h>
#include <stdlib.h>

enum { alignment = 4096 };

static double* array(size_t n) {
    double* const values = aligned_alloc(alignment, n * sizeof(double));
    if (!values) {
        fprintf(stderr, "triad: no memory for %zu doubles\n", n);
        exit(1);
    }
    return values;
}

static long argument(int argc, char** argv, int index, long otherwise, const char* name) {
    if (index >= argc) return otherwise;
    char* end;
    const long value = strtol(argv[index], &end, 10);
    if (*end || value < 1) {
        fprintf(stderr, "triad: %s is '%s'; give a whole number of at least 1\n", name,
                argv[index]);
        exit(2);
    }
    return value;
}

int main(int argc, char** argv) {
    const long mebibytes = argument(argc, argv, 1, 16, "MiB per array");
    const long repeats = argument(argc, argv, 2, 5, "repeats");
    const size_t n = (size_t)mebibytes * (1u << 20) / sizeof(double);
    const double scale = 3.0;
    double *const a = array(n), *const b = array(n), *const c = array(n);

#pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        a[i] = 0.0;
        b[i] = (double)(i % 1024);
        c[i] = 1.0;
    }
    for (long repeat = 1; repeat <= repeats; repeat++) {
        const double s = scale * (double)repeat;  // differs each time, so no repeat can be left out
#pragma omp parallel for
        for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
    }

    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += a[i] != (double)(i % 1024) + scale * (double)repeats;
    printf("triad: 3 arrays of %ld MiB, %ld repeats: %s\n", mebibytes, repeats,
           wrong ? "WRONG" : "all elements right");
    free(a);
    free(b);
    free(c);
    return wrong != 0;
}
