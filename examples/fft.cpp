// Fourier transforms of a signal over and over, as of one that fits a core's L2: Stockham's passes
// of radix 2 from one buffer to the other and back, which need no reordering, and a table of
// twiddles. Each transform is scaled to keep the norm. It takes a wave to an impulse and an impulse
// to a wave, so that a signal made of one of each is known at every point after any number of them.
//
//   fft [log2 of points = 14] [transforms = 100]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <utility>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

struct Complex {
    double re, im;
};
Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Complex operator*(double factor, Complex a) { return {factor * a.re, factor * a.im}; }

using Signal = std::vector<Complex>;

// exp(2 pi i numerator / points)
Complex unit(std::uint64_t numerator, std::uint64_t points) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(numerator % points) /
                         static_cast<double>(points);
    return {std::cos(angle), std::sin(angle)};
}

// Butterflies of points half a signal apart; `run` neighbours share a twiddle and stay together.
void pass(const Signal& from, Signal& to, const Signal& twiddles, std::size_t run) {
    const std::size_t half = from.size() / 2;
    const double scale = std::numbers::sqrt2 / 2;
    for (std::size_t first = 0; first < half; first += run) {
        const Complex twiddle = scale * twiddles[first];
        for (std::size_t i = first; i < first + run; ++i) {
            const Complex a = from[i], b = from[i + half];
            to[first + i] = scale * (a + b);
            to[first + i + run] = twiddle * (a - b);
        }
    }
}

// A wave of norm 1 with so many periods, and an impulse at a point.
struct Known {
    std::uint64_t points, periods, place;

    [[nodiscard]] Complex at(std::uint64_t i) const {
        const Complex wave = 1 / std::sqrt(static_cast<double>(points)) * unit(periods * i, points);
        return wave + Complex{i == place ? 1.0 : 0.0, 0.0};
    }
    [[nodiscard]] Known transformed() const { return {points, (points - place) % points, periods}; }
};

}  // namespace

int main(int argc, char** argv) {
    const int passes = argument(argc, argv, 1, 14, 26, "log2 of points");
    const int transforms = argument(argc, argv, 2, 100, 1000000, "transforms");
    const std::uint64_t points = std::uint64_t{1} << passes;
    Known known{points, 5 % points, points / 3};

    pagelens_region_begin("initialise");
    Signal x, twiddles;
    x.reserve(points);
    twiddles.reserve(points / 2);
    for (std::uint64_t i = 0; i < points; ++i) x.push_back(known.at(i));
    for (std::uint64_t i = 0; i < points / 2; ++i) twiddles.push_back(unit(points - i, points));
    Signal y(points);
    pagelens_region_end("initialise");

    pagelens_region_begin("transforms");
    for (int transform = 0; transform < transforms; ++transform) {
        for (std::size_t run = 1; run < points; run *= 2) {
            pass(x, y, twiddles, run);
            std::swap(x, y);
        }
    }
    pagelens_region_end("transforms");

    for (int transform = 0; transform < transforms; ++transform) known = known.transformed();
    double error = 0.0;
    for (std::uint64_t i = 0; i < points; ++i) {
        const Complex difference = x[i] - known.at(i);
        error = std::max(error, std::hypot(difference.re, difference.im));
    }
    const bool ok = error <= 1e-15 * passes * transforms;
    std::printf("fft: %llu points, %d transforms, error %.1e: %s\n",
                static_cast<unsigned long long>(points), transforms, error, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
