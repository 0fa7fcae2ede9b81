// The inner loops, one table for each set of vector instructions and kind of store; loops_*.cpp
// fill them from loops_of.hpp.
#pragma once

#include <cstddef>

#include "probes/isa.hpp"

namespace pagelens::probes {

struct Loops {
    // to[i] of n doubles; the arrays are aligned to 8 bytes and do not overlap.
    void (*copy)(double* to, const double* x, std::size_t n);                  // x[i]
    void (*scale)(double* to, const double* x, double s, std::size_t n);       // s x[i]
    void (*add)(double* to, const double* x, const double* y, std::size_t n);  // x[i] + y[i]
    void (*triad)(double* to, const double* x, const double* y, double s,
                  std::size_t n);  // x + s y
    double (*sum)(const double* x, std::size_t n);
};

const Loops& sse2_loops(bool nontemporal, bool spread);
const Loops& avx2_loops(bool nontemporal, bool spread);
const Loops& avx512_loops(bool nontemporal, bool spread);

// Stores past the caches or not; spread: at four places of the arrays in turn, instead of from the
// first element to the last.
inline const Loops& loops(Isa isa, bool nontemporal, bool spread) {
    switch (isa) {
        case Isa::avx512:
            return avx512_loops(nontemporal, spread);
        case Isa::avx2:
            return avx2_loops(nontemporal, spread);
        case Isa::sse2:
            break;
    }
    return sse2_loops(nontemporal, spread);
}

}  // namespace pagelens::probes
