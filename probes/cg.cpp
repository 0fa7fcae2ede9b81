#include "probes/cg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "probes/stencil_matrix.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

constexpr std::size_t line = 64;
constexpr double most_drift = 1e-10;

struct Problem {
    StencilMatrix a;
    double *b, *x, *r, *p, *ap;
    std::size_t rows;
};

// A sum over all threads: each gives its own part, and all get the same total. One object serves
// again once its threads have met elsewhere.
class Sum {
  public:
    explicit Sum(std::size_t threads) : parts_(threads) {}
    double of(const Member& member, double part) {
        parts_[member.index].value = part;
        member.barrier.wait();
        double total = 0;
        for (const Part& each : parts_) total += each.value;
        return total;
    }

  private:
    struct alignas(line) Part {
        double value = 0;
    };
    std::vector<Part> parts_;
};

double dot(const double* x, const double* y, Member::Part part) {
    double sum = 0;
    for (std::size_t i = part.first; i < part.last; ++i) sum += x[i] * y[i];
    return sum;
}

void solve(const Member& member, const Problem& all, std::size_t iterations, Sum& curvature,
           Sum& square) {
    const auto [a, b, x, r, p, ap, rows] = all;
    const Member::Part part = member.part_of(rows, line / sizeof(double));
    for (std::size_t i = part.first; i < part.last; ++i) {
        x[i] = 0;
        r[i] = p[i] = b[i];
    }
    double rr = square.of(member, dot(b, b, part));
    for (std::size_t iteration = 0; iteration < iterations && rr > 0; ++iteration) {
        for (std::size_t i = part.first; i < part.last; ++i) ap[i] = a.row_times(i, p);
        const double alpha = rr / curvature.of(member, dot(p, ap, part));
        for (std::size_t i = part.first; i < part.last; ++i) x[i] += alpha * p[i];
        double mine = 0;
        for (std::size_t i = part.first; i < part.last; ++i) {
            r[i] -= alpha * ap[i];
            mine += r[i] * r[i];
        }
        // One thread's word, which ends the iterations of all of them.
        if (member.index == 0 && stop_requested()) mine = std::numeric_limits<double>::quiet_NaN();
        const double next = square.of(member, mine);
        for (std::size_t i = part.first; i < part.last; ++i) p[i] = r[i] + next / rr * p[i];
        rr = next;
        member.barrier.wait();  // the product reads neighbours' p
    }
}

// The largest |b - A x| / |b| after so many iterations: the error in the norm of A falls at least
// as 2 q^iterations, q = (sqrt(k) - 1) / (sqrt(k) + 1), and the residual differs from it by sqrt(k)
// at most. Of each row the diagonal is 27, the rest -26 at most: eigenvalues lie in [1, 53], k
// = 53.
double most_residual(std::size_t iterations) {
    const double root = std::sqrt(53.0), q = (root - 1) / (root + 1);
    return 2 * root * std::pow(q, static_cast<double>(iterations)) + 1e-12;
}

Problem placed(const Memory::Use& use, std::size_t side, std::size_t offset_bytes) {
    const auto at = cg_arrays(side, offset_bytes);
    const std::size_t rows = stencil_rows(side), entries = stencil_entries_before(side, rows);
    const auto vector = [&](std::size_t i) { return use.at<double>(at[i], rows, "arrays"); };
    return {
        {use.at<double>(at[0], entries, "values"), use.at<std::int32_t>(at[1], entries, "columns"),
         use.at<std::int64_t>(at[2], rows + 1, "starts")},
        vector(3),
        vector(4),
        vector(5),
        vector(6),
        vector(7),
        rows};
}

}  // namespace

std::vector<std::size_t> cg_arrays(std::size_t side, std::size_t offset_bytes) {
    if (side == 0 || side > most_cg_side) {
        throw std::invalid_argument("side: " + std::to_string(side) + "; from 1 to " +
                                    std::to_string(most_cg_side));
    }
    if (offset_bytes % line != 0) {
        throw std::invalid_argument("offset_bytes: " + std::to_string(offset_bytes) +
                                    "; a multiple of 64");
    }
    const std::size_t rows = stencil_rows(side), entries = stencil_entries_before(side, rows);
    const std::array sizes{entries * sizeof(double), entries * sizeof(std::int32_t),
                           (rows + 1) * sizeof(std::int64_t)};
    std::vector<std::size_t> begins{0};
    for (std::size_t array = 0; array < 8; ++array) {
        const std::size_t bytes = array < sizes.size() ? sizes[array] : rows * sizeof(double);
        const std::size_t end = begins.back() + (bytes + line - 1) / line * line;
        begins.push_back(array < 7 ? end + offset_bytes : end);
    }
    return begins;
}

std::size_t cg_bytes(std::size_t side) {
    const std::size_t rows = stencil_rows(side);
    return 12 * stencil_entries_before(side, rows) + (8 + 16 + 16 + 24 + 24 + 24) * rows;
}

CgResult cg(const Memory& memory, std::size_t side, std::size_t offset_bytes,
            std::size_t iterations, std::size_t repeats, std::span<const int> cpus) {
    if (iterations == 0 || iterations > most_cg_iterations) {
        throw std::invalid_argument("iterations: " + std::to_string(iterations) + "; 1 to " +
                                    std::to_string(most_cg_iterations));
    }
    const Memory::Use use(memory);
    const Problem all = placed(use, side, offset_bytes);
    run_pinned(cpus, [&](const Member& member) {
        const auto [first, last] = member.part_of(all.rows, line / sizeof(double));
        fill_stencil(all.a, all.b, side, first, last);
    });

    Sum curvature(cpus.size()), square(cpus.size());
    const Times times = timed(cpus, repeats, [&](const Member& member) {
        solve(member, all, iterations, curvature, square);
    });

    double residual = 0, drift = 0;
    for (std::size_t i = 0; i < all.rows; ++i) {
        const double right = all.b[i] - all.a.row_times(i, all.x);
        residual += right * right;
        drift += (right - all.r[i]) * (right - all.r[i]);
    }
    const double unit = std::sqrt(dot(all.b, all.b, {0, all.rows}));
    residual = std::sqrt(residual) / unit;
    drift = std::sqrt(drift) / unit;
    const bool ok = drift <= most_drift && residual <= most_residual(iterations);
    return {times.slowest(), residual, drift, ok};
}

}  // namespace pagelens::probes
