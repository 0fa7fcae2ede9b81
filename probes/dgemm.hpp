// C = A B by somebody else's BLAS, for matrices placed in a memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "probes/memory.hpp"

namespace pagelens::probes {

inline constexpr std::size_t most_dgemm_order = 32768;

struct DgemmResult {
    std::vector<double> seconds;  // of each repetition: of 2 n^3 operations
    double error;                 // largest of the elements looked at, in units of what is allowed
    bool threads_set;             // the library was told how many threads to use
};

// Multiplies n x n matrices, stored by columns at 0, d and 2 d bytes of the memory (d = 8 n n +
// offset_bytes), by the routine `symbol` of the library file (Fortran's interface, integers of 4 or
// 8 bytes). The calling thread is confined to cpus, and with it threads that the library begins
// then; OpenBLAS, MKL and BLIS are told how many to use, and keep to that.
//
// 64 elements are computed anew; an error up to 1 is what rounding allows: n 2^-52 sum |a| |b|.
// std::invalid_argument: n of 0 or beyond most_dgemm_order, matrices beyond the memory, an offset
// that is no multiple of 8, repeats of 0, integer_bytes, cpus. Failure: the library or its routine
// cannot be loaded.
DgemmResult dgemm(const Memory& memory, std::size_t n, std::size_t offset_bytes,
                  std::size_t repeats, std::span<const int> cpus, const std::string& library,
                  const std::string& symbol, std::size_t integer_bytes);

}  // namespace pagelens::probes
