/* Fills 1 MiB with non-temporal stores. */
#include <immintrin.h>
#include <stdlib.h>

__attribute__((noinline)) void fill(double* array, size_t n) {
    for (size_t i = 0; i < n; i += 2) _mm_stream_pd(array + i, _mm_set1_pd((double)i));
}

int main(void) {
    fill(aligned_alloc(4096, 1 << 20), 1 << 17);
    return 0;
}
