// Conjugate gradients on a 27-point stencil of a cube, stored as a sparse matrix, in the manner of
// the HPCCG mini-application: 27 on the diagonal, -1 for each neighbour, and a right-hand side that
// makes the solution all ones. However few the iterations, the answer must be the one that theory
// has for their number, which is checked.
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

// What holds for conjugate gradients from x = 0 after any number of iterations.
struct Check {
    double residual;  // |b - A x|, in units of |b| as the next
    double drift;     // of the recurrence's residual from it
    double slant;     // the residual is orthogonal to x and b, as both lie in the space searched
    double error;     // |x - 1| in the norm of A, in units of that of the start
    double most;      // Chebyshev's bound on it

    [[nodiscard]] bool ok() const { return drift <= 1e-10 && slant <= 1e-10 && error <= most; }
};

Check check(const Problem& problem, const Vector& x, const Solution& solution) {
    const Vector &b = problem.b, &r = solution.residual;
    const double unit = norm(b);
    Vector difference(b.size()), ones(b.size(), 1.0);
    combine(1.0, r, -1.0, solution.recurrence, difference);
    const double drift = norm(difference) / unit;
    combine(1.0, ones, -1.0, x, difference);
    // A (1 - x) is the residual, and b where x = 0.
    const double error = std::sqrt(std::abs(dot(difference, r)) / dot(ones, b));
    const double slant = std::max(std::abs(dot(r, x)) / norm(x), std::abs(dot(r, b)) / unit) / unit;
    // Of each row the diagonal is 27, the rest -26 at most: the eigenvalues lie in [1, 53].
    const double most = 1 / std::cosh(solution.iterations * std::acosh((53.0 + 1) / (53 - 1)));
    return {norm(r) / unit, drift, slant, error, most + 1e-12};
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
    const Solution solution =
        conjugate_gradients(problem.a, problem.b, x, tolerance, most_iterations);

    const Check found = check(problem, x, solution);
    const bool done = found.residual <= 2 * tolerance || solution.iterations == most_iterations;
    const bool ok = found.ok() && done;
    std::printf(
        "cg: %d^3 rows, %zu entries, %d iterations: residual %.1e, off the recurrence's by %.1e; "
        "error %.1e of the start's, at most %.1e by theory: %s\n",
        side, problem.a.values.size(), solution.iterations, found.residual, found.drift,
        found.error, found.most, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
