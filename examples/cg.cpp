// Conjugate gradients on a 27-point stencil of a cube, stored as a sparse matrix, in the manner of
// the HPCCG mini-application: 27 on the diagonal, -1 for each neighbour, and a right-hand side that
// makes the solution all ones, which is checked.
//
//   cg [points per side = 40] [most iterations = 100]
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "argument.h"
#include "pagelens.h"
#include "sparse.hpp"

namespace {

struct Problem {
    SparseMatrix a;
    Vector b;
};

// Neighbours of a coordinate within the cube: [first, last].
struct Range {
    int first, last;
};
Range neighbours(int coordinate, int side) {
    return {std::max(coordinate - 1, 0), std::min(coordinate + 1, side - 1)};
}

Problem generate(int side) {
    Problem problem;
    SparseMatrix& a = problem.a;
    const auto rows = static_cast<std::size_t>(side) * side * side;
    a.starts.reserve(rows + 1);
    a.columns.reserve(27 * rows);
    a.values.reserve(27 * rows);
    problem.b.reserve(rows);
    for (int z = 0; z < side; ++z) {
        for (int y = 0; y < side; ++y) {
            for (int x = 0; x < side; ++x) {
                const std::int32_t row = (z * side + y) * side + x;
                const Range rx = neighbours(x, side), ry = neighbours(y, side),
                            rz = neighbours(z, side);
                double row_sum = 0.0;
                for (int nz = rz.first; nz <= rz.last; ++nz) {
                    for (int ny = ry.first; ny <= ry.last; ++ny) {
                        for (int nx = rx.first; nx <= rx.last; ++nx) {
                            const std::int32_t column = (nz * side + ny) * side + nx;
                            const double value = column == row ? 27.0 : -1.0;
                            a.columns.push_back(column);
                            a.values.push_back(value);
                            row_sum += value;
                        }
                    }
                }
                a.starts.push_back(static_cast<std::int64_t>(a.columns.size()));
                problem.b.push_back(row_sum);
            }
        }
    }
    return problem;
}

}  // namespace

int main(int argc, char** argv) {
    const int side = argument(argc, argv, 1, 40, 1000, "points per side");
    const int most_iterations = argument(argc, argv, 2, 100, 10000, "most iterations");
    const double tolerance = 1e-10;

    pagelens_region_begin("generate");
    const Problem problem = generate(side);
    pagelens_region_end("generate");

    Vector x(problem.b.size(), 0.0);
    pagelens_region_begin("solve");
    const Solution solution =
        conjugate_gradients(problem.a, problem.b, x, tolerance, most_iterations);
    pagelens_region_end("solve");

    double error = 0.0;
    for (const double value : x) error = std::max(error, std::abs(value - 1.0));
    // The matrix's smallest eigenvalue is at least 1 (its rows sum to 1 or more): the error is
    // bounded by the residual's norm.
    const double bound = solution.residual * std::sqrt(dot(problem.b, problem.b)) + 1e-12;
    const bool ok = error <= bound &&
                    (solution.residual <= 2 * tolerance || solution.iterations == most_iterations);
    std::printf("cg: %d^3 rows, %zu entries, %d iterations, residual %.1e, error %.1e: %s\n", side,
                problem.a.values.size(), solution.iterations, solution.residual, error,
                ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
