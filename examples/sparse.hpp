// What the two finite-something examples share: a matrix in compressed rows, its product with a
// vector, and conjugate gradients (Hestenes and Stiefel, 1952) without a preconditioner.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "pagelens.h"

using Vector = std::vector<double>;

struct SparseMatrix {
    std::vector<std::int64_t> starts{0};  // row i holds entries starts[i] .. starts[i + 1] - 1
    std::vector<std::int32_t> columns;    // ascending in each row
    Vector values;

    [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

inline void multiply(const SparseMatrix& a, const Vector& x, Vector& y) {
#pragma omp parallel for
    for (std::int64_t row = 0; row < a.rows(); ++row) {
        double sum = 0.0;
        for (std::int64_t k = a.starts[row]; k < a.starts[row + 1]; ++k) {
            sum += a.values[k] * x[a.columns[k]];
        }
        y[row] = sum;
    }
}

inline double dot(const Vector& x, const Vector& y) {
    const auto n = static_cast<std::int64_t>(x.size());
    double sum = 0.0;
#pragma omp parallel for reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

// w = alpha x + beta y; w may be x or y.
inline void combine(double alpha, const Vector& x, double beta, const Vector& y, Vector& w) {
    const auto n = static_cast<std::int64_t>(x.size());
#pragma omp parallel for
    for (std::int64_t i = 0; i < n; ++i) w[i] = alpha * x[i] + beta * y[i];
}

inline double norm(const Vector& x) { return std::sqrt(dot(x, x)); }

struct Solution {
    int iterations;
    Vector residual;    // b - A x, computed afresh from x
    Vector recurrence;  // the same as the iterations had it
};

// Improves x until the residual falls below `tolerance` or `most_iterations` are done.
inline Solution conjugate_gradients(const SparseMatrix& a, const Vector& b, Vector& x,
                                    double tolerance, int most_iterations) {
    pagelens_region_begin("start");
    Vector r(b.size()), ap(b.size());
    multiply(a, x, ap);
    combine(1.0, b, -1.0, ap, r);
    Vector p = r;
    const double goal = tolerance * tolerance * dot(b, b);
    double rr = dot(r, r);
    pagelens_region_end("start");
    pagelens_region_begin("solve");
    int iteration = 0;
    for (; iteration < most_iterations && rr > goal; ++iteration) {
        multiply(a, p, ap);
        const double alpha = rr / dot(p, ap);
        combine(1.0, x, alpha, p, x);
        combine(1.0, r, -alpha, ap, r);
        const double next = dot(r, r);
        combine(1.0, r, next / rr, p, p);
        rr = next;
    }
    pagelens_region_end("solve");
    multiply(a, x, ap);
    combine(1.0, b, -1.0, ap, ap);
    return {iteration, std::move(ap), std::move(r)};
}
