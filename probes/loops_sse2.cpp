#include <immintrin.h>

namespace pagelens::probes {
namespace {

struct Vector {
    using Register = __m128d;
    static Register load(const double* x) { return _mm_loadu_pd(x); }
    static void store(double* to, Register v) { _mm_storeu_pd(to, v); }
    static void stream(double* to, Register v) { _mm_stream_pd(to, v); }
    static Register all(double x) { return _mm_set1_pd(x); }
    static Register add(Register v, Register w) { return _mm_add_pd(v, w); }
    static Register mul(Register v, Register w) { return _mm_mul_pd(v, w); }
};

}  // namespace
}  // namespace pagelens::probes

#include "probes/loops_of.hpp"

namespace pagelens::probes {

const Loops& sse2_loops(bool nontemporal, bool spread) { return chosen(nontemporal, spread); }

}  // namespace pagelens::probes
