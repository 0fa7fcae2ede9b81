// The inner loops, written once for every set of vector instructions. Each loops_*.cpp defines its
// `Vector` in an unnamed namespace before it includes this, so that no function compiled for a
// newer processor is merged with one that older ones run; for the same reason nothing of the
// standard library is called here.
#pragma once

#include <emmintrin.h>

#include "probes/loops.hpp"

namespace pagelens::probes {
namespace {

constexpr std::size_t line_doubles = 8;  // of 64 bytes
constexpr std::size_t page_doubles = 512;
constexpr std::size_t wide = sizeof(Vector::Register) / sizeof(double);

// Doubles before `to` is at the beginning of a line: non-temporal stores of whole lines leave the
// processor as they are, of parts they cost a read.
std::size_t before_line(const double* to, std::size_t n) {
    const std::size_t over = reinterpret_cast<std::size_t>(to) / sizeof(double) % line_doubles;
    const std::size_t head = over == 0 ? 0 : line_doubles - over;
    return head < n ? head : n;
}

template <bool nontemporal>
void store(double* to, Vector::Register value) {
    if constexpr (nontemporal) {
        Vector::stream(to, value);
    } else {
        Vector::store(to, value);
    }
}

// to[i] = of(i) for all i: `one(i)` is a double, `some(i)` the vector that begins there. Lines of
// `to` are written whole.
//
// With several places, the work goes on at each of them in turn. Prefetchers stop at the end of a
// page and begin anew; while one place waits, others do not. They lie an odd number of pages apart,
// so that no two share sets or banks that are chosen by bits above the page.
template <bool nontemporal, std::size_t places, class One, class Some>
[[gnu::always_inline]] inline void each(double* __restrict to, std::size_t n, One one, Some some) {
    constexpr std::size_t lines = 4;  // a round: as many loads in flight as there are registers for
    constexpr std::size_t step = lines * line_doubles, vectors = step / wide;
    const auto round = [&](std::size_t i) __attribute__((always_inline)) {
        Vector::Register held[vectors];
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) held[v] = some(i + v * wide);
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) store<nontemporal>(to + i + v * wide, held[v]);
    };
    std::size_t i = 0;
    for (const std::size_t head = before_line(to, n); i < head; ++i) to[i] = one(i);
    if (const std::size_t pages = (n - i) / page_doubles / places; places > 1 && pages > 0) {
        const std::size_t apart = ((pages - 1) | 1) * page_doubles;
        for (const std::size_t end = i + apart; i < end; i += step) {
#pragma GCC unroll 4
            for (std::size_t place = 0; place < places; ++place) round(i + place * apart);
        }
        i += (places - 1) * apart;
    }
    for (; i + step <= n; i += step) round(i);
    for (; i < n; ++i) to[i] = one(i);
    if constexpr (nontemporal) _mm_sfence();
}

template <bool nontemporal, std::size_t places>
void copy(double* to, const double* x, std::size_t n) {
    each<nontemporal, places>(
        to, n, [=](std::size_t i) { return x[i]; },
        [=](std::size_t i) { return Vector::load(x + i); });
}

template <bool nontemporal, std::size_t places>
void scale(double* to, const double* x, double s, std::size_t n) {
    const auto all = Vector::all(s);
    each<nontemporal, places>(
        to, n, [=](std::size_t i) { return s * x[i]; },
        [=](std::size_t i) { return Vector::mul(all, Vector::load(x + i)); });
}

template <bool nontemporal, std::size_t places>
void add(double* to, const double* x, const double* y, std::size_t n) {
    each<nontemporal, places>(
        to, n, [=](std::size_t i) { return x[i] + y[i]; },
        [=](std::size_t i) { return Vector::add(Vector::load(x + i), Vector::load(y + i)); });
}

template <bool nontemporal, std::size_t places>
void triad(double* to, const double* x, const double* y, double s, std::size_t n) {
    const auto all = Vector::all(s);
    each<nontemporal, places>(
        to, n, [=](std::size_t i) { return x[i] + s * y[i]; },
        [=](std::size_t i) {
            return Vector::add(Vector::load(x + i), Vector::mul(all, Vector::load(y + i)));
        });
}

// Adds in eight sums at a time, so that additions need not wait for each other.
double sum(const double* x, std::size_t n) {
    constexpr std::size_t sums = 8;
    Vector::Register partial[sums];
    for (auto& one : partial) one = Vector::all(0);
    std::size_t i = 0;
    for (; i + sums * wide <= n; i += sums * wide) {
#pragma GCC unroll 8
        for (std::size_t v = 0; v < sums; ++v) {
            partial[v] = Vector::add(partial[v], Vector::load(x + i + v * wide));
        }
    }
    double all[sums * wide], total = 0;
    for (std::size_t v = 0; v < sums; ++v) Vector::store(all + v * wide, partial[v]);
    for (const double one : all) total += one;
    for (; i < n; ++i) total += x[i];
    return total;
}

template <bool nontemporal, std::size_t places>
constexpr Loops table{copy<nontemporal, places>, scale<nontemporal, places>,
                      add<nontemporal, places>, triad<nontemporal, places>, sum};

const Loops& chosen(bool nontemporal, bool spread) {
    constexpr std::size_t many = 4;
    if (nontemporal) return spread ? table<true, many> : table<true, 1>;
    return spread ? table<false, many> : table<false, 1>;
}

}  // namespace
}  // namespace pagelens::probes
