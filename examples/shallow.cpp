// Shallow water on a periodic square, small enough for a core's L2: Sadourny's scheme that
// conserves potential enstrophy (J. Atmos. Sci. 32, 1975) in leapfrog steps, with Asselin's filter
// in time; three loops over thirteen fields a step. Mass is conserved to rounding, a standing wave
// of small amplitude swings with the frequency that the grid gives it, and a flow in layers stays
// as it is.
//
//   shallow [cells per side = 96] [steps = 100]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

constexpr double step_length = 0.2;  // cells that a wave passes in a step
constexpr double amplitude = 1e-4;   // of a depth of 1
constexpr double filter = 1e-3;

// One value a cell, x fastest; rows and columns close on themselves. Velocities lie on the faces to
// the west (u) and to the south (v) of a cell, vorticity on the corner between.
class Field {
  public:
    explicit Field(int side) : side_(side), values_(static_cast<std::size_t>(side) * side) {}
    [[nodiscard]] double* row(int j) { return &values_[offset(j)]; }
    [[nodiscard]] const double* row(int j) const { return &values_[offset(j)]; }
    [[nodiscard]] const std::vector<double>& values() const { return values_; }

  private:
    [[nodiscard]] std::size_t offset(int j) const {
        return static_cast<std::size_t>((j + side_) % side_) * side_;
    }
    int side_;
    std::vector<double> values_;
};

// point(cell, its neighbour to the west, to the east) for all cells of a row.
template <class Point>
void for_row(int side, Point&& point) {
    point(0, side - 1, 1 % side);
#pragma omp simd
    for (int i = 1; i < side - 1; ++i) point(i, i - 1, i + 1);
    if (side > 1) point(side - 1, side - 2, 0);
}

struct Model {
    explicit Model(int cells) : side(cells) {}

    // Before the first step: what u, v and p are, they have been.
    void begin() {
        u_old = u;
        v_old = v;
        p_old = p;
    }
    void step() {
        fluxes();
        advance();
        turn();
        length = 2 * step_length;
    }

    int side;
    Field u{side}, v{side}, p{side};
    Field u_old{side}, v_old{side}, p_old{side};
    Field u_new{side}, v_new{side}, p_new{side};
    Field cu{side}, cv{side}, z{side}, h{side};

  private:
    void fluxes();
    void advance();
    void turn();
    double length = step_length;  // from the past: the first step has none, and leaps half as far
};

// Mass fluxes, potential vorticity, and the height that drives the flow.
void Model::fluxes() {
    for (int j = 0; j < side; ++j) {
        const double *u0 = u.row(j), *u_south = u.row(j - 1);
        const double *v0 = v.row(j), *v_north = v.row(j + 1);
        const double *p0 = p.row(j), *p_south = p.row(j - 1);
        double *cu0 = cu.row(j), *cv0 = cv.row(j), *z0 = z.row(j), *h0 = h.row(j);
        for_row(side, [=](int i, int west, int east) {
            cu0[i] = 0.5 * (p0[west] + p0[i]) * u0[i];
            cv0[i] = 0.5 * (p_south[i] + p0[i]) * v0[i];
            z0[i] = 4 * (v0[i] - v0[west] - u0[i] + u_south[i]) /
                    (p_south[west] + p_south[i] + p0[west] + p0[i]);
            h0[i] = p0[i] + 0.25 * (u0[i] * u0[i] + u0[east] * u0[east] + v0[i] * v0[i] +
                                    v_north[i] * v_north[i]);
        });
    }
}

void Model::advance() {
    for (int j = 0; j < side; ++j) {
        const double *cu0 = cu.row(j), *cu_south = cu.row(j - 1);
        const double *cv0 = cv.row(j), *cv_north = cv.row(j + 1);
        const double *z0 = z.row(j), *z_north = z.row(j + 1);
        const double *h0 = h.row(j), *h_south = h.row(j - 1);
        const double *u_was = u_old.row(j), *v_was = v_old.row(j), *p_was = p_old.row(j);
        double *u1 = u_new.row(j), *v1 = v_new.row(j), *p1 = p_new.row(j);
        for_row(side, [=, leap = length](int i, int west, int east) {
            u1[i] = u_was[i] + leap * (0.125 * (z0[i] + z_north[i]) *
                                           (cv0[west] + cv0[i] + cv_north[west] + cv_north[i]) -
                                       h0[i] + h0[west]);
            v1[i] = v_was[i] - leap * (0.125 * (z0[i] + z0[east]) *
                                           (cu_south[i] + cu_south[east] + cu0[i] + cu0[east]) +
                                       h0[i] - h_south[i]);
            p1[i] = p_was[i] - leap * (cu0[east] - cu0[i] + cv_north[i] - cv0[i]);
        });
    }
}

// The filtered present becomes the past, the future the present.
void Model::turn() {
    for (int j = 0; j < side; ++j) {
        double *u_was = u_old.row(j), *v_was = v_old.row(j), *p_was = p_old.row(j);
        double *u0 = u.row(j), *v0 = v.row(j), *p0 = p.row(j);
        const double *u1 = u_new.row(j), *v1 = v_new.row(j), *p1 = p_new.row(j);
        const auto one = [](double& before, double& present, double after) {
            before = present + filter * (after - 2 * present + before);
            present = after;
        };
        for_row(side, [=](int i, int, int) {
            one(u_was[i], u0[i], u1[i]);
            one(v_was[i], v0[i], v1[i]);
            one(p_was[i], p0[i], p1[i]);
        });
    }
}

// Calls cell(i, j) for all.
template <class Cell>
void for_cells(int side, Cell&& cell) {
    for (int j = 0; j < side; ++j) {
        for (int i = 0; i < side; ++i) cell(i, j);
    }
}

// Of the depth: its mean, and how much there is of the wave.
struct Measured {
    double mass = 0.0, wave = 0.0;
};

Measured measure(const Model& model, const std::vector<double>& wave) {
    Measured found;
    for_cells(model.side, [&](int i, int j) {
        found.mass += model.p.row(j)[i];
        found.wave += model.p.row(j)[i] * wave[i] * wave[j];
    });
    found.mass /= model.side * model.side;
    return found;
}

// The largest change after some steps of a flow in layers, to the east or to the north: rotation
// and the height's slope balance, on this grid to rounding.
double change_of_layers(const std::vector<double>& wave, bool east) {
    Model model(static_cast<int>(wave.size()));
    const auto velocity = [&](int i, int j) { return 0.1 * (east ? wave[j] : wave[i]); };
    for_cells(model.side, [&](int i, int j) {
        (east ? model.u : model.v).row(j)[i] = velocity(i, j);
        model.p.row(j)[i] = 1.0;
    });
    model.begin();
    for (int step = 0; step < 2; ++step) model.step();
    double most = 0.0;
    for_cells(model.side, [&](int i, int j) {
        most = std::max({most, std::abs(model.u.row(j)[i] - (east ? velocity(i, j) : 0.0)),
                         std::abs(model.v.row(j)[i] - (east ? 0.0 : velocity(i, j))),
                         std::abs(model.p.row(j)[i] - 1.0)});
    });
    return most;
}

}  // namespace

int main(int argc, char** argv) {
    const int side = argument(argc, argv, 1, 96, 10000, "cells per side");
    const int steps = argument(argc, argv, 2, 100, 1000000, "steps");
    std::vector<double> wave;  // one period, along either axis
    for (int i = 0; i < side; ++i) wave.push_back(std::cos(2 * std::numbers::pi * i / side));

    pagelens_region_begin("initialise");
    Model model(side);
    for_cells(side, [&](int i, int j) { model.p.row(j)[i] = 1 + amplitude * wave[i] * wave[j]; });
    model.begin();
    pagelens_region_end("initialise");
    const Measured before = measure(model, wave);

    pagelens_region_begin("steps");
    for (int step = 0; step < steps; ++step) model.step();
    pagelens_region_end("steps");

    // Of the linear equations in leapfrog steps: sin(turned) = step x the differences' wave number.
    const double number = std::numbers::sqrt2 * 2 * std::sin(std::numbers::pi / side);
    const double turned = std::asin(step_length * number);
    const Measured after = measure(model, wave);
    const double lost = std::abs(after.mass - before.mass);
    const double off = std::abs(after.wave / before.wave - std::cos(turned * steps));
    const double layers = std::max(change_of_layers(wave, true), change_of_layers(wave, false));
    // The first step is one of Euler's, the filter damps, and a wave is linear only if it is small.
    const double allowed = turned * turned * (1 + filter * steps) + 10 * amplitude;
    const bool ok = lost <= 1e-15 * (steps + side) && off <= allowed && layers <= 1e-14;
    std::printf(
        "shallow: %d^2 cells, %d steps, mass changed by %.1e, wave off by %.1e, layers by %.1e: "
        "%s\n",
        side, steps, lost, off, layers, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
