// The triad of STREAM, a = b + s c, on arrays of one size: the simplest program whose speed depends
// on whether its pages share slots of a memory-side cache. The answer is checked exactly.
//
//   triad [MiB per array = 16] [repeats = 5] [1: one thread initialises, 2: all do = 2]
#include <stdio.h>
#include <stdlib.h>

#include "argument.h"
#include "pagelens.h"

static double* array(size_t n) {
    double* const values = aligned_alloc(4096, n * sizeof(double));
    if (values == NULL) {
        fprintf(stderr, "triad: no memory for %zu doubles\n", n);
        exit(1);
    }
    return values;
}

// Makes element i of the three arrays what it is before the triad.
static void initialise(double* a, double* b, double* c, size_t i) {
    a[i] = 0.0;
    b[i] = (double)(i % 1024);
    c[i] = 1.0;
}

int main(int argc, char** argv) {
    const int mebibytes = argument(argc, argv, 1, 16, 65536, "MiB per array");
    const int repeats = argument(argc, argv, 2, 5, 1000, "repeats");
    const int who = argument(argc, argv, 3, 2, 2, "1: one thread initialises, 2: all do");
    const size_t n = (size_t)mebibytes * (1u << 20) / sizeof(double);
    const double scale = 3.0;
    double *const a = array(n), *const b = array(n), *const c = array(n);

    pagelens_region_begin("initialise");
    if (who == 1) {
        for (size_t i = 0; i < n; i++) initialise(a, b, c, i);
    } else {
#pragma omp parallel for
        for (size_t i = 0; i < n; i++) initialise(a, b, c, i);
    }
    pagelens_region_end("initialise");

    pagelens_region_begin("triad");
    for (int repeat = 1; repeat <= repeats; repeat++) {
        const double s = scale * repeat;  // differs each time, so no repeat can be left out
#pragma omp parallel for
        for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
    }
    pagelens_region_end("triad");

    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += a[i] != (double)(i % 1024) + scale * repeats;
    printf("triad: 3 arrays of %d MiB, %d repeats: %zu wrong elements: %s\n", mebibytes, repeats,
           wrong, wrong == 0 ? "ok" : "FAILED");
    free(a);
    free(b);
    free(c);
    return wrong != 0;
}
