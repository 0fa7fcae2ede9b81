// A BLAS for the tests: right ones with both sizes of integers, one that errs, and one that does
// nothing.
#include <cstddef>
#include <cstdint>

namespace {

template <class Int>
void multiply(const Int* n, const double* a, const double* b, double* c, double more) {
    for (Int column = 0; column < *n; ++column) {
        for (Int row = 0; row < *n; ++row) {
            double sum = more;
            for (Int k = 0; k < *n; ++k) sum += a[row + k * *n] * b[k + column * *n];
            c[row + column * *n] = sum;
        }
    }
}

}  // namespace

extern "C" {

void openblas_set_num_threads(int) {}

void dgemm_(const char*, const char*, const std::int32_t* n, const std::int32_t*,
            const std::int32_t*, const double*, const double* a, const std::int32_t*,
            const double* b, const std::int32_t*, const double*, double* c, const std::int32_t*) {
    multiply(n, a, b, c, 0);
}

void dgemm_64_(const char*, const char*, const std::int64_t* n, const std::int64_t*,
               const std::int64_t*, const double*, const double* a, const std::int64_t*,
               const double* b, const std::int64_t*, const double*, double* c,
               const std::int64_t*) {
    multiply(n, a, b, c, 0);
}

void wrong_dgemm_(const char*, const char*, const std::int32_t* n, const std::int32_t*,
                  const std::int32_t*, const double*, const double* a, const std::int32_t*,
                  const double* b, const std::int32_t*, const double*, double* c,
                  const std::int32_t*) {
    multiply(n, a, b, c, 1e-9);
}

void no_dgemm_() {}
}
