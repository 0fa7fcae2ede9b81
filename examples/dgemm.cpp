// C += A B by the blocks of BLIS (github.com/flame/blis): a packed block of A stays in L2 while
// slivers of a packed panel of B pass by it, and tiles of C are updated one by one. Entries are
// small whole numbers: the result is exact, and compared with a plain product.
//
//   dgemm [tiles in a block of A = 15] [depth = 384] [slivers of B = 268] [rows of C = 240]
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

constexpr int tile_rows = 16, tile_columns = 14;

struct Freed {
    void operator()(double* values) const { std::free(values); }
};
using Values = std::unique_ptr<double[], Freed>;  // from the beginning of a page on

struct Shape {
    int tiles, depth, slivers, c_rows;
    [[nodiscard]] int rows() const { return tiles * tile_rows; }
    [[nodiscard]] int columns() const { return slivers * tile_columns; }
};

std::size_t at(int row, int column, int rows) {
    return static_cast<std::size_t>(column) * rows + row;
}

double entry_a(int row, int k) { return (row + 3 * k) % 7 - 3; }
double entry_b(int k, int column) { return (2 * k + column) % 5 - 2; }

double* reserved(std::size_t count) {
    const std::size_t page = 4096, bytes = (count * sizeof(double) + page - 1) / page * page;
    void* values = std::aligned_alloc(page, bytes);
    if (values == nullptr) {
        std::fprintf(stderr, "dgemm: no memory for %zu bytes\n", bytes);
        std::exit(1);
    }
    return static_cast<double*>(values);
}

// Tiles of A one after the other, each by columns.
void pack_a(const Shape& shape, const double* a, double* to) {
    for (int tile = 0; tile < shape.tiles; ++tile) {
        for (int k = 0; k < shape.depth; ++k) {
            to = std::copy_n(&a[at(tile * tile_rows, k, shape.rows())], tile_rows, to);
        }
    }
}

// Slivers of B one after the other, each by rows.
void pack_b(const Shape& shape, const double* b, double* to) {
    for (int first = 0; first < shape.columns(); first += tile_columns) {
        for (int k = 0; k < shape.depth; ++k) {
            for (int j = first; j < first + tile_columns; ++j) *to++ = b[at(k, j, shape.depth)];
        }
    }
}

void update_tile(int depth, const double* a, const double* b, double* c, int c_rows) {
    double sums[tile_columns][tile_rows] = {};
    for (int k = 0; k < depth; ++k, a += tile_rows, b += tile_columns) {
        for (int j = 0; j < tile_columns; ++j) {
#pragma omp simd
            for (int i = 0; i < tile_rows; ++i) sums[j][i] += a[i] * b[j];
        }
    }
    for (int j = 0; j < tile_columns; ++j) {
        for (int i = 0; i < tile_rows; ++i) c[at(i, j, c_rows)] += sums[j][i];
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int tiles = argument(argc, argv, 1, 15, 1000, "tiles in a block of A");
    const Shape shape{tiles, argument(argc, argv, 2, 384, 10000, "depth"),
                      argument(argc, argv, 3, 268, 10000, "slivers of B"),
                      std::max(tiles * tile_rows,
                               argument(argc, argv, 4, tiles * tile_rows, 100000, "rows of C"))};

    pagelens_region_begin("initialise");
    const Values a(reserved(at(0, shape.depth, shape.rows())));
    const Values b(reserved(at(0, shape.columns(), shape.depth)));
    const Values c(reserved(at(0, shape.columns(), shape.c_rows)));
    for (int k = 0; k < shape.depth; ++k) {
        for (int i = 0; i < shape.rows(); ++i) a[at(i, k, shape.rows())] = entry_a(i, k);
    }
    for (int j = 0; j < shape.columns(); ++j) {
        for (int k = 0; k < shape.depth; ++k) b[at(k, j, shape.depth)] = entry_b(k, j);
    }
    std::fill_n(c.get(), at(0, shape.columns(), shape.c_rows), 0.0);
    pagelens_region_end("initialise");

    pagelens_region_begin("pack");
    const Values a_packed(reserved(at(0, shape.depth, shape.rows())));
    const Values b_packed(reserved(at(0, shape.columns(), shape.depth)));
    pack_a(shape, a.get(), a_packed.get());
    pack_b(shape, b.get(), b_packed.get());
    pagelens_region_end("pack");

    pagelens_region_begin("update");
    for (int sliver = 0; sliver < shape.slivers; ++sliver) {
        for (int tile = 0; tile < shape.tiles; ++tile) {
            update_tile(shape.depth, &a_packed[at(0, tile * tile_rows, shape.depth)],
                        &b_packed[at(0, sliver * tile_columns, shape.depth)],
                        &c[at(tile * tile_rows, sliver * tile_columns, shape.c_rows)],
                        shape.c_rows);
        }
    }
    pagelens_region_end("update");

    std::size_t wrong = 0;
    std::vector<double> sums(static_cast<std::size_t>(shape.rows()));
    for (int j = 0; j < shape.columns(); ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int k = 0; k < shape.depth; ++k) {
            const double* column = &a[at(0, k, shape.rows())];
            const double factor = b[at(k, j, shape.depth)];
#pragma omp simd
            for (int i = 0; i < shape.rows(); ++i) sums[i] += column[i] * factor;
        }
        for (int i = 0; i < shape.rows(); ++i) wrong += c[at(i, j, shape.c_rows)] != sums[i];
    }
    std::printf("dgemm: %d x %d x %d, %zu wrong entries: %s\n", shape.rows(), shape.columns(),
                shape.depth, wrong, wrong == 0 ? "ok" : "FAILED");
    return wrong == 0 ? 0 : 1;
}
