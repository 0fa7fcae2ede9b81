// The matrix of cg.hpp in compressed rows, in arrays that somebody else placed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pagelens::probes {

struct StencilMatrix {
    double* values;         // [entries]
    std::int32_t* columns;  // [entries], ascending in each row
    std::int64_t* starts;   // [rows + 1]: row i holds entries starts[i] .. starts[i + 1] - 1

    // The sum of a row's products with x.
    [[nodiscard]] double row_times(std::size_t row, const double* x) const {
        double sum = 0;
        for (std::int64_t k = starts[row]; k < starts[row + 1]; ++k)
            sum += values[k] * x[columns[k]];
        return sum;
    }
};

inline std::size_t stencil_rows(std::size_t side) { return side * side * side; }

// Entries in the rows before this one: the neighbours of a row are a box, so they are counted a
// coordinate at a time.
inline std::size_t stencil_entries_before(std::size_t side, std::size_t row) {
    // Neighbours of the first `points` points of a line: 2 at its ends, else 3.
    const auto line = [side](std::size_t points) {
        return points == 0 ? 0 : 3 * points - 1 - (points == side ? 1 : 0);
    };
    const auto of = [&](std::size_t point) { return line(point + 1) - line(point); };
    const std::size_t x = row % side, y = row / side % side, z = row / (side * side);
    if (z == side) return line(side) * line(side) * line(side);
    return line(z) * line(side) * line(side) + of(z) * (line(y) * line(side) + of(y) * line(x));
}

// Fills in rows [first, last) and their right-hand side.
inline void fill_stencil(const StencilMatrix& a, double* b, std::size_t side, std::size_t first,
                         std::size_t last) {
    const auto n = static_cast<std::int64_t>(side);
    for (std::size_t row = first; row < last; ++row) {
        auto k = static_cast<std::int64_t>(stencil_entries_before(side, row));
        const auto r = static_cast<std::int64_t>(row);
        const std::int64_t x = r % n, y = r / n % n, z = r / (n * n);
        double sum = 0;
        a.starts[row] = k;
        for (std::int64_t at = 0; at < 27; ++at) {
            const std::int64_t nx = x + at % 3 - 1, ny = y + at / 3 % 3 - 1, nz = z + at / 9 - 1;
            if (nx < 0 || ny < 0 || nz < 0 || nx >= n || ny >= n || nz >= n) continue;
            const std::int64_t column = (nz * n + ny) * n + nx;
            a.columns[k] = static_cast<std::int32_t>(column);
            a.values[k] = column == r ? 27 : -1;
            sum += a.values[k++];
        }
        a.starts[row + 1] = k;
        b[row] = sum;
    }
}

}  // namespace pagelens::probes
