// Finite elements in the manner of the MiniFE mini-application: steady conduction on a brick of
// trilinear hexahedra, assembled element by element into a sparse matrix and solved by conjugate
// gradients. The boundary carries u = 1 + x + 2 y + 3 z + x y z, which is harmonic and lies in the
// space of the elements, so every node must show it up to the solver's tolerance; stopped earlier,
// the error in the norm of the matrix must have fallen.
//
//   fe [elements per side = 30] [most iterations = enough]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "argument.h"
#include "pagelens.h"
#include "sparse.hpp"

namespace {

using Point = std::array<double, 3>;
using Corners = std::array<std::int32_t, 8>;
using ElementMatrix = std::array<std::array<double, 8>, 8>;

struct Mesh {
    int side;  // elements per side
    [[nodiscard]] int nodes_per_side() const { return side + 1; }
    [[nodiscard]] std::int32_t node(int i, int j, int k) const {
        return (k * nodes_per_side() + j) * nodes_per_side() + i;
    }
    // The spacing grows smoothly, so that no two layers of elements are alike.
    [[nodiscard]] double coordinate(int i) const {
        const double t = static_cast<double>(i) / side;
        return t * (0.5 + 0.5 * t);
    }
};

double exact(const Point& p) { return 1 + p[0] + 2 * p[1] + 3 * p[2] + p[0] * p[1] * p[2]; }

// Corner c stands at (c & 1, c >> 1 & 1, c >> 2) of the element.
Corners corners(const Mesh& mesh, int i, int j, int k) {
    Corners result;
    for (int c = 0; c < 8; ++c) result[c] = mesh.node(i + (c & 1), j + (c >> 1 & 1), k + (c >> 2));
    return result;
}

// Integrals of dN_a/dx_d dN_b/dx_d over the unit cube, a matrix a direction, by 2 x 2 x 2 Gauss
// points.
using Integrals = std::array<ElementMatrix, 3>;

Integrals on_unit_cube() {
    Integrals integrals{};
    for (int q = 0; q < 8; ++q) {
        std::array<Point, 8> gradients;
        for (int c = 0; c < 8; ++c) {
            double factor[3], slope[3];
            for (int d = 0; d < 3; ++d) {
                const double at = 0.5 + ((q >> d & 1) != 0 ? 0.5 : -0.5) / std::sqrt(3.0);
                const bool upper = (c >> d & 1) != 0;
                factor[d] = upper ? at : 1 - at;
                slope[d] = upper ? 1 : -1;
            }
            gradients[c] = {slope[0] * factor[1] * factor[2], factor[0] * slope[1] * factor[2],
                            factor[0] * factor[1] * slope[2]};
        }
        for (int d = 0; d < 3; ++d) {
            for (int a = 0; a < 8; ++a) {
                for (int b = 0; b < 8; ++b)
                    integrals[d][a][b] += gradients[a][d] * gradients[b][d] / 8;
            }
        }
    }
    return integrals;
}

// Integral of grad N_a . grad N_b over a brick of the given edges: the unit cube's, stretched.
ElementMatrix stiffness(const Integrals& unit, const Point& edges) {
    ElementMatrix matrix;
    const double volume = edges[0] * edges[1] * edges[2];
    const Point weight = {volume / (edges[0] * edges[0]), volume / (edges[1] * edges[1]),
                          volume / (edges[2] * edges[2])};
    for (int a = 0; a < 8; ++a) {
        for (int b = 0; b < 8; ++b) {
            matrix[a][b] =
                weight[0] * unit[0][a][b] + weight[1] * unit[1][a][b] + weight[2] * unit[2][a][b];
        }
    }
    return matrix;
}

// The pattern of the matrix: a node meets the nodes of the elements around it.
SparseMatrix structure(const Mesh& mesh) {
    SparseMatrix a;
    const int n = mesh.nodes_per_side();
    const auto rows = static_cast<std::size_t>(n) * n * n;
    a.starts.reserve(rows + 1);
    a.columns.reserve(27 * rows);
    for (int k = 0; k < n; ++k) {
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < n; ++i) {
                for (int nk = std::max(k - 1, 0); nk <= std::min(k + 1, n - 1); ++nk) {
                    for (int nj = std::max(j - 1, 0); nj <= std::min(j + 1, n - 1); ++nj) {
                        for (int ni = std::max(i - 1, 0); ni <= std::min(i + 1, n - 1); ++ni) {
                            a.columns.push_back(mesh.node(ni, nj, nk));
                        }
                    }
                }
                a.starts.push_back(static_cast<std::int64_t>(a.columns.size()));
            }
        }
    }
    a.values.assign(a.columns.size(), 0.0);
    return a;
}

void assemble(const Mesh& mesh, SparseMatrix& a) {
    const Integrals unit = on_unit_cube();
    for (int k = 0; k < mesh.side; ++k) {
        for (int j = 0; j < mesh.side; ++j) {
            for (int i = 0; i < mesh.side; ++i) {
                const ElementMatrix local =
                    stiffness(unit, {mesh.coordinate(i + 1) - mesh.coordinate(i),
                                     mesh.coordinate(j + 1) - mesh.coordinate(j),
                                     mesh.coordinate(k + 1) - mesh.coordinate(k)});
                const Corners nodes = corners(mesh, i, j, k);
                for (int r = 0; r < 8; ++r) {
                    const auto first = a.columns.begin() + a.starts[nodes[r]];
                    const auto last = a.columns.begin() + a.starts[nodes[r] + 1];
                    for (int c = 0; c < 8; ++c) {
                        const auto place =
                            std::lower_bound(first, last, nodes[c]) - a.columns.begin();
                        a.values[place] += local[r][c];
                    }
                }
            }
        }
    }
}

// Boundary rows become identity rows; what they contribute elsewhere moves to the right-hand side.
void fix_boundary(const std::vector<bool>& fixed, const Vector& u, SparseMatrix& a, Vector& b) {
    for (std::int64_t row = 0; row < a.rows(); ++row) {
        if (fixed[row]) b[row] = u[row];
        for (std::int64_t k = a.starts[row]; k < a.starts[row + 1]; ++k) {
            const std::int32_t column = a.columns[k];
            if (fixed[row]) {
                a.values[k] = column == row ? 1.0 : 0.0;
            } else if (fixed[column]) {
                b[row] -= a.values[k] * u[column];
                a.values[k] = 0.0;
            }
        }
    }
}

// Of x against the solution, in the norm that conjugate gradients minimise.
double error_norm(const SparseMatrix& a, const Vector& x, const Vector& solution) {
    Vector difference(x.size()), product(x.size());
    combine(1.0, x, -1.0, solution, difference);
    multiply(a, difference, product);
    return std::sqrt(std::abs(dot(difference, product)));
}

}  // namespace

int main(int argc, char** argv) {
    const Mesh mesh{argument(argc, argv, 1, 30, 1000, "elements per side")};
    const int n = mesh.nodes_per_side();

    pagelens_region_begin("structure");
    SparseMatrix a = structure(mesh);
    pagelens_region_end("structure");

    pagelens_region_begin("assembly");
    assemble(mesh, a);
    pagelens_region_end("assembly");

    Vector u, b(a.rows(), 0.0), x(a.rows(), 0.0);
    std::vector<bool> fixed;
    for (int k = 0; k < n; ++k) {
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < n; ++i) {
                u.push_back(exact({mesh.coordinate(i), mesh.coordinate(j), mesh.coordinate(k)}));
                fixed.push_back(i % mesh.side == 0 || j % mesh.side == 0 || k % mesh.side == 0);
                if (fixed.back()) x[u.size() - 1] = u.back();
            }
        }
    }
    fix_boundary(fixed, u, a, b);

    const int enough = 10 * mesh.side + 10;
    const int most_iterations = argument(argc, argv, 2, enough, 100000, "most iterations");
    const double at_start = error_norm(a, x, u);
    const Solution solution = conjugate_gradients(a, b, x, 1e-12, most_iterations);

    double error = 0.0;
    for (std::size_t i = 0; i < u.size(); ++i) error = std::max(error, std::abs(x[i] - u[i]));
    // u is between 1 and 8. With nothing but the boundary there is no error to begin with.
    const bool stopped = solution.iterations == most_iterations && most_iterations < enough;
    const bool ok = stopped ? error_norm(a, x, u) < at_start : error <= 1e-8;
    std::printf("fe: %d^3 elements, %lld rows, %d iterations, residual %.1e, error %.1e: %s\n",
                mesh.side, static_cast<long long>(a.rows()), solution.iterations,
                norm(solution.residual) / norm(b), error, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
