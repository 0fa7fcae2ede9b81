// Conjugate gradients (Hestenes and Stiefel, 1952) on a 27-point stencil of a cube stored as a
// sparse matrix, in the manner of the HPCCG mini-application and of examples/cg.cpp: 27 on the
// diagonal, -1 for each neighbour, a right-hand side that makes the solution all ones.
//
// A byte is one that the loops read or write, each vector counted once for each loop that it is in:
// of an iteration 12 for each entry of the matrix, and for each row 8 (where it starts), 16 (A p
// from p), 16 (p . A p), 24 (x), 24 (r, and r . r in the same loop) and 24 (p).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "probes/memory.hpp"

namespace pagelens::probes {

inline constexpr std::size_t most_cg_side = 1000, most_cg_iterations = 500;

// Returns the first bytes of the arrays in a memory: values, columns, starts, b, x, r, p and A p,
// each at a line and `offset_bytes` behind the end of the one before. The ninth number is the end
// of all. Throws std::invalid_argument for a side of 0 or beyond most_cg_side, and for an offset
// that is no multiple of 64.
std::vector<std::size_t> cg_arrays(std::size_t side, std::size_t offset_bytes);

// Bytes of one iteration.
std::size_t cg_bytes(std::size_t side);

struct CgResult {
    std::vector<double> seconds;  // of each repetition: of all iterations from x = 0
    double residual;              // |b - A x| / |b|
    double drift;                 // of the iterations' residual from it, in units of |b|
    bool ok;                      // drift within 1e-10, and the residual what theory allows
};

// Solves side^3 rows in as many iterations, `repeats` times; each thread has rows of its own.
// std::invalid_argument: as cg_arrays; iterations not from 1 to most_cg_iterations, repeats of 0,
// arrays beyond the memory, cpus.
CgResult cg(const Memory& memory, std::size_t side, std::size_t offset_bytes,
            std::size_t iterations, std::size_t repeats, std::span<const int> cpus);

}  // namespace pagelens::probes
