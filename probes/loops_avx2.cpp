#include <immintrin.h>

namespace pagelens::probes {
namespace {

struct Vector {
    using Register = __m256d;
    static Register load(const double* x) { return _mm256_loadu_pd(x); }
    static void store(double* to, Register v) { _mm256_storeu_pd(to, v); }
    static void stream(double* to, Register v) { _mm256_stream_pd(to, v); }
    static Register all(double x) { return _mm256_set1_pd(x); }
    static Register add(Register v, Register w) { return _mm256_add_pd(v, w); }
    static Register mul(Register v, Register w) { return _mm256_mul_pd(v, w); }
};

}  // namespace
}  // namespace pagelens::probes

#include "probes/loops_of.hpp"

namespace pagelens::probes {

const Loops& avx2_loops(bool nontemporal, bool spread) { return chosen(nontemporal, spread); }

}  // namespace pagelens::probes
