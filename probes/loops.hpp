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
    void (*fill)(double* to, double value, std::size_t n);
    double (*sum)(const double* x, std::size_t n);
};

const Loops& sse2_loops(bool nontemporal);
const Loops& avx2_loops(bool nontemporal);
const Loops& avx512_loops(bool nontemporal);

inline const Loops& loops(Isa isa, bool nontemporal) {
    switch (isa) {
        case Isa::avx512:
            return avx512_loops(nontemporal);
        case Isa::avx2:
            return avx2_loops(nontemporal);
        case Isa::sse2:
            break;
    }
    return sse2_loops(nontemporal);
}

}  // namespace pagelens::probes
