// A 7-point stencil over boxes with ghost cells, in the manner of Chombo: a periodic cube is cut
// into boxes, each an allocation of its own with a layer of ghost cells around it. A step copies
// what neighbours know into the ghost cells and takes every cell to the mean of its six
// neighbours. A product of three cosines of one period shrinks by a known factor in each step.
//
//   stencil [boxes per side = 3] [cells per side of a box = 32] [steps = 10]
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numbers>
#include <utility>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

using Box = std::vector<double>;  // its cells with their ghosts, x fastest
using Level = std::vector<Box>;   // the boxes of the cube, x fastest

struct Layout {
    int boxes, cells;  // per side
    [[nodiscard]] int ghosted() const { return cells + 2; }
    [[nodiscard]] std::size_t at(int x, int y, int z) const {  // 0 and cells + 1 are ghosts
        return (static_cast<std::size_t>(z) * ghosted() + y) * ghosted() + x;
    }
    [[nodiscard]] std::size_t count() const {
        return static_cast<std::size_t>(boxes) * boxes * boxes;
    }
    [[nodiscard]] std::size_t box(int x, int y, int z) const {  // periodic
        const auto wrap = [&](int i) { return static_cast<std::size_t>((i + boxes) % boxes); };
        return (wrap(z) * boxes + wrap(y)) * boxes + wrap(x);
    }
};

template <class Visit>
void for_boxes(const Layout& layout, Visit&& visit) {
    for (int z = 0; z < layout.boxes; ++z) {
        for (int y = 0; y < layout.boxes; ++y) {
            for (int x = 0; x < layout.boxes; ++x) visit(x, y, z);
        }
    }
}

template <class Visit>
void for_face(const Layout& layout, Visit&& visit) {
    for (int j = 1; j <= layout.cells; ++j) {
        for (int i = 1; i <= layout.cells; ++i) visit(i, j);
    }
}

// Fills the six faces of ghost cells of every box from the cells of its neighbours.
void exchange(const Layout& layout, Level& level) {
    const int last = layout.cells;
    for_boxes(layout, [&](int bx, int by, int bz) {
        Box& to = level[layout.box(bx, by, bz)];
        const auto neighbour = [&](int x, int y, int z) -> const Box& {
            return level[layout.box(bx + x, by + y, bz + z)];
        };
        const Box &left = neighbour(-1, 0, 0), &right = neighbour(1, 0, 0);
        const Box &front = neighbour(0, -1, 0), &back = neighbour(0, 1, 0);
        const Box &below = neighbour(0, 0, -1), &above = neighbour(0, 0, 1);
        for_face(layout, [&](int y, int z) {
            to[layout.at(0, y, z)] = left[layout.at(last, y, z)];
            to[layout.at(last + 1, y, z)] = right[layout.at(1, y, z)];
        });
        for_face(layout, [&](int x, int z) {
            to[layout.at(x, 0, z)] = front[layout.at(x, last, z)];
            to[layout.at(x, last + 1, z)] = back[layout.at(x, 1, z)];
        });
        for_face(layout, [&](int x, int y) {
            to[layout.at(x, y, 0)] = below[layout.at(x, y, last)];
            to[layout.at(x, y, last + 1)] = above[layout.at(x, y, 1)];
        });
    });
}

void relax(const Layout& layout, const Level& from, Level& to) {
    const std::size_t row = layout.ghosted(), plane = row * row;
    for (std::size_t b = 0; b < from.size(); ++b) {
        const Box& u = from[b];
        for (int z = 1; z <= layout.cells; ++z) {
            for (int y = 1; y <= layout.cells; ++y) {
                for (int x = 1; x <= layout.cells; ++x) {
                    const std::size_t c = layout.at(x, y, z);
                    to[b][c] = (u[c - 1] + u[c + 1] + u[c - row] + u[c + row] + u[c - plane] +
                                u[c + plane]) /
                               6;
                }
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const Layout layout{argument(argc, argv, 1, 3, 100, "boxes per side"),
                        argument(argc, argv, 2, 32, 1000, "cells per side of a box")};
    const int steps = argument(argc, argv, 3, 10, 100000, "steps");
    const int side = layout.boxes * layout.cells;
    const double phase = 2 * std::numbers::pi / side;

    pagelens_region_begin("initialise");
    Level level(layout.count(), Box(layout.at(0, 0, layout.ghosted())));
    for_boxes(layout, [&](int bx, int by, int bz) {
        Box& box = level[layout.box(bx, by, bz)];
        for (int z = 1; z <= layout.cells; ++z) {
            for (int y = 1; y <= layout.cells; ++y) {
                for (int x = 1; x <= layout.cells; ++x) {
                    box[layout.at(x, y, z)] = std::cos(phase * (bx * layout.cells + x)) *
                                              std::cos(phase * (by * layout.cells + y)) *
                                              std::cos(phase * (bz * layout.cells + z));
                }
            }
        }
    });
    Level next = level;
    pagelens_region_end("initialise");
    const Level start = level;

    pagelens_region_begin("steps");
    for (int step = 0; step < steps; ++step) {
        exchange(layout, level);
        relax(layout, level, next);
        std::swap(level, next);
    }
    pagelens_region_end("steps");

    const double factor = std::pow(std::cos(phase), steps);
    double error = 0.0;
    for (std::size_t b = 0; b < level.size(); ++b) {
        for (int z = 1; z <= layout.cells; ++z) {
            for (int y = 1; y <= layout.cells; ++y) {
                for (int x = 1; x <= layout.cells; ++x) {
                    const std::size_t c = layout.at(x, y, z);
                    error = std::max(error, std::abs(level[b][c] - factor * start[b][c]));
                }
            }
        }
    }
    const bool ok = error <= 1e-13 * steps;
    std::printf("stencil: %d^3 boxes of %d^3 cells, %d steps, error %.1e: %s\n", layout.boxes,
                layout.cells, steps, error, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
