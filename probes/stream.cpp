#include "probes/stream.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "probes/caches.hpp"
#include "probes/loops.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

constexpr double scalar = 3;               // STREAM's
constexpr std::size_t page_doubles = 512;  // threads meet at page boundaries of aligned arrays
constexpr double unset = -1;               // what no answer is

// No two neighbours are equal, so that an element in a wrong place is an error.
double value(std::size_t i, double least) { return least + static_cast<double>(i % 1021) / 1024; }
double a_value(std::size_t i) { return value(i, 1); }
double b_value(std::size_t i) { return value(i, 2); }
double c_value(std::size_t i) { return value(i, 3); }

struct Arrays {
    double *a, *b, *c;
};

double* answer_of(StreamKernel kernel, const Arrays& arrays) {
    switch (kernel) {
        case StreamKernel::scale:
            return arrays.b;
        case StreamKernel::triad:
            return arrays.a;
        case StreamKernel::copy:
        case StreamKernel::add:
            break;
    }
    return arrays.c;
}

double expected(StreamKernel kernel, std::size_t i) {
    switch (kernel) {
        case StreamKernel::copy:
            return a_value(i);
        case StreamKernel::scale:
            return scalar * c_value(i);
        case StreamKernel::add:
            return a_value(i) + b_value(i);
        case StreamKernel::triad:
            break;
    }
    return b_value(i) + scalar * c_value(i);
}

void run(StreamKernel kernel, const Loops& loops, const Arrays& all, std::size_t first,
         std::size_t n) {
    double *const a = all.a + first, *const b = all.b + first, *const c = all.c + first;
    switch (kernel) {
        case StreamKernel::copy:
            return loops.copy(c, a, n);
        case StreamKernel::scale:
            return loops.scale(b, c, scalar, n);
        case StreamKernel::add:
            return loops.add(c, a, b, n);
        case StreamKernel::triad:
            return loops.triad(a, b, c, scalar, n);
    }
}

}  // namespace

std::size_t stream_bytes(StreamKernel kernel) {
    return kernel == StreamKernel::copy || kernel == StreamKernel::scale ? 16 : 24;
}

Stores better_stores(StreamKernel kernel, std::size_t n, std::span<const int> cpus) {
    return n > last_level_bytes(cpus) / stream_bytes(kernel) ? Stores::nontemporal : Stores::plain;
}

StreamResult stream(const Memory& memory, StreamKernel kernel, std::size_t n,
                    std::size_t offset_bytes, std::size_t repeats, std::span<const int> cpus,
                    Isa isa, Stores stores, Order order) {
    if (n == 0) throw std::invalid_argument("n: 0; at least 1");
    require(isa);
    const Memory::Use use(memory);
    const std::size_t apart = n * sizeof(double) + offset_bytes;
    const Arrays all{use.at<double>(0, n, "array a"), use.at<double>(apart, n, "array b"),
                     use.at<double>(2 * apart, n, "array c")};
    double* const answer = answer_of(kernel, all);
    const Loops& loop = loops(isa, stores == Stores::nontemporal, order == Order::spread);

    run_pinned(cpus, [&](const Member& member) {
        const auto [first, last] = member.part_of(n, page_doubles);
        for (std::size_t i = first; i < last; ++i) {
            all.a[i] = a_value(i);
            all.b[i] = b_value(i);
            all.c[i] = c_value(i);
        }
        std::fill(answer + first, answer + last, unset);
    });
    const Times times = timed(cpus, repeats, [&](const Member& member) {
        const auto [first, last] = member.part_of(n, page_doubles);
        run(kernel, loop, all, first, last - first);
    });
    std::vector<double> errors(cpus.size(), 0);
    run_pinned(cpus, [&](const Member& member) {
        const auto [first, last] = member.part_of(n, page_doubles);
        double most = 0;
        for (std::size_t i = first; i < last; ++i) {
            const double right = expected(kernel, i);
            most = std::max(most, std::abs(answer[i] - right) / right);
        }
        errors[member.index] = most;
    });
    return {times.slowest(), *std::max_element(errors.begin(), errors.end())};
}

}  // namespace pagelens::probes
