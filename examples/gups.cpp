// Random updates of a large table, in the manner of HPC Challenge's RandomAccess: 64-bit words at
// the places that a shift register names are combined with it by exclusive or. The same updates
// made once more must leave the table as it was.
//
// With a hot part, nine of ten updates meet it; it lies at the table's beginning.
//
//   gups [log2 of words = 20] [updates per word = 2] [percent of it that is hot = 100]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

// x^63 + x^2 + x + 1 over GF(2): the register of HPC Challenge.
constexpr std::uint64_t polynomial = 7;

std::uint64_t next(std::uint64_t state) {
    return state << 1 ^ ((state >> 63) != 0 ? polynomial : 0);
}

// SplitMix64's (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Registers in turn, as the benchmark does it: of one alone each word lies at twice the place of
// the word before.
void update(std::vector<std::uint64_t>& table, std::uint64_t updates, std::uint64_t hot) {
    constexpr std::size_t registers = 128;
    std::uint64_t state[registers];
    for (std::size_t r = 0; r < registers; ++r) {
        state[r] = mixed(0x9e3779b97f4a7c15u * (r + 1));
    }
    const std::uint64_t cold = table.size() - hot;
    for (std::uint64_t done = 0; done < updates; done += registers) {
        for (std::uint64_t& x : state) {
            x = next(x);
            const std::uint64_t place = x >> 10;  // the bits below choose the part
            table[cold == 0 || x % 1024 % 10 < 9 ? place % hot : hot + place % cold] ^= x;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int bits = argument(argc, argv, 1, 20, 34, "log2 of words");
    const int per_word = argument(argc, argv, 2, 2, 1000, "updates per word");
    const std::uint64_t words = std::uint64_t{1} << bits, updates = words * per_word;
    const std::uint64_t percent = argument(argc, argv, 3, 100, 100, "percent of it that is hot");
    const std::uint64_t hot = std::max<std::uint64_t>(1, words * percent / 100);

    pagelens_region_begin("initialise");
    std::vector<std::uint64_t> table(words);
    for (std::uint64_t i = 0; i < words; ++i) table[i] = i;
    pagelens_region_end("initialise");

    pagelens_region_begin("update");
    update(table, updates, hot);
    pagelens_region_end("update");

    std::uint64_t moved = 0;
    for (std::uint64_t i = 0; i < words; ++i) moved += table[i] != i;
    update(table, updates, hot);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < words; ++i) wrong += table[i] != i;
    // A word is met with probability 1 - exp(-updates); to within a twentieth, as the registers are
    // no perfect dice.
    const auto met = [&](std::uint64_t part, double share) {
        const auto n = static_cast<double>(part);
        return n == 0 ? 0 : n * -std::expm1(-share * static_cast<double>(updates) / n);
    };
    const double due = hot == words ? met(words, 1) : met(hot, 0.9) + met(words - hot, 0.1);
    const bool even = words < 65536 || std::abs(static_cast<double>(moved) - due) < due / 20;
    const bool ok = wrong == 0 && even;
    std::printf(
        "gups: %llu words, %llu updates, %llu words moved, %llu wrong after the second: %s\n",
        static_cast<unsigned long long>(words), static_cast<unsigned long long>(updates),
        static_cast<unsigned long long>(moved), static_cast<unsigned long long>(wrong),
        ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
