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
// `to` are written whole and in turn.
template <bool nontemporal, class One, class Some>
[[gnu::always_inline]] inline void each(double* __restrict to, std::size_t n, One one, Some some) {
    constexpr std::size_t lines = 4;  // a round: as many loads in flight as registers allow
    std::size_t i = 0;
    for (const std::size_t head = before_line(to, n); i < head; ++i) to[i] = one(i);
    constexpr std::size_t step = lines * line_doubles, vectors = step / wide;
    for (; i + step <= n; i += step) {
        Vector::Register held[vectors];
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) held[v] = some(i + v * wide);
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) store<nontemporal>(to + i + v * wide, held[v]);
    }
    for (; i < n; ++i) to[i] = one(i);
    if constexpr (nontemporal) _mm_sfence();
}

template <bool nontemporal>
void copy(double* to, const double* x, std::size_t n) {
    each<nontemporal>(
        to, n, [=](std::size_t i) { return x[i]; },
        [=](std::size_t i) { return Vector::load(x + i); });
}

template <bool nontemporal>
void scale(double* to, const double* x, double s, std::size_t n) {
    const auto all = Vector::all(s);
    each<nontemporal>(
        to, n, [=](std::size_t i) { return s * x[i]; },
        [=](std::size_t i) { return Vector::mul(all, Vector::load(x + i)); });
}

template <bool nontemporal>
void add(double* to, const double* x, const double* y, std::size_t n) {
    each<nontemporal>(
        to, n, [=](std::size_t i) { return x[i] + y[i]; },
        [=](std::size_t i) { return Vector::add(Vector::load(x + i), Vector::load(y + i)); });
}

template <bool nontemporal>
void triad(double* to, const double* x, const double* y, double s, std::size_t n) {
    const auto all = Vector::all(s);
    each<nontemporal>(
        to, n, [=](std::size_t i) { return x[i] + s * y[i]; },
        [=](std::size_t i) {
            return Vector::add(Vector::load(x + i), Vector::mul(all, Vector::load(y + i)));
        });
}

template <bool nontemporal>
void fill(double* to, double value, std::size_t n) {
    const auto all = Vector::all(value);
    each<nontemporal>(to, n, [=](std::size_t) { return value; }, [=](std::size_t) { return all; });
}

// In eight sums at a time, so that additions need not wait for each other.
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

template <bool nontemporal>
constexpr Loops table{copy<nontemporal>,  scale<nontemporal>, add<nontemporal>,
                      triad<nontemporal>, fill<nontemporal>,  sum};

const Loops& chosen(bool nontemporal) { return nontemporal ? table<true> : table<false>; }

}  // namespace
}  // namespace pagelens::probes
