// The four kernels of STREAM as stream.c lays them out: three static arrays of N + OFFSET doubles,
// one after the other, so that OFFSET moves them apart. Values stay whole numbers below 2^53; every
// element is checked exactly.
//
//   stream [repeats = 10]
//
// `make STREAM="-DN=... -DOFFSET=... -DSTREAMING"` builds it with other sizes, both in doubles and
// a multiple of 8, and with stores that pass the caches.
#include <immintrin.h>
#include <stddef.h>
#include <stdio.h>

#include "argument.h"
#include "pagelens.h"

#ifndef N
#define N 2000000
#endif
#ifndef OFFSET
#define OFFSET 0
#endif
_Static_assert(N % 8 == 0 && OFFSET % 8 == 0, "the arrays consist of whole lines");

static _Alignas(64) double a[N + OFFSET], b[N + OFFSET], c[N + OFFSET];

static inline void store(double* to, __m256d four) {
#ifdef STREAMING
    _mm256_stream_pd(to, four);
#else
    _mm256_store_pd(to, four);
#endif
}

static __m256d load(const double* from) { return _mm256_load_pd(from); }

static double start(size_t i) { return (double)(i % 4 + 1); }  // of a

int main(int argc, char** argv) {
    const int repeats = argument(argc, argv, 1, 10, 12, "repeats");
    const double scalar = 3.0;
    const __m256d s = _mm256_set1_pd(scalar);

    pagelens_region_begin("initialise");
    for (size_t i = 0; i < N; i++) {
        a[i] = start(i);
        b[i] = 2.0;
        c[i] = 0.5;
    }
    pagelens_region_end("initialise");

    for (int repeat = 0; repeat < repeats; repeat++) {
        pagelens_region_begin("copy");
        for (size_t i = 0; i < N; i += 4) store(&c[i], load(&a[i]));
        pagelens_region_end("copy");

        pagelens_region_begin("scale");
        for (size_t i = 0; i < N; i += 4) store(&b[i], s * load(&c[i]));
        pagelens_region_end("scale");

        pagelens_region_begin("add");
        for (size_t i = 0; i < N; i += 4) store(&c[i], load(&a[i]) + load(&b[i]));
        pagelens_region_end("add");

        pagelens_region_begin("triad");
        for (size_t i = 0; i < N; i += 4) store(&a[i], load(&b[i]) + s * load(&c[i]));
        pagelens_region_end("triad");
    }

    double before = 1.0;  // what a has grown to before the last repeat
    for (int repeat = 1; repeat < repeats; repeat++) before *= scalar + scalar * (1 + scalar);
    size_t wrong = 0;
    for (size_t i = 0; i < N; i++) {
        const double was = before * start(i), scaled = scalar * was, added = was + scaled;
        wrong += b[i] != scaled || c[i] != added || a[i] != scaled + scalar * added;
    }
    printf("stream: 3 arrays of %d doubles, %d between them, %d repeats: %zu wrong elements: %s\n",
           N, OFFSET, repeats, wrong, wrong == 0 ? "ok" : "FAILED");
    return wrong != 0;
}
