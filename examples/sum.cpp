// Sums an array that fits a core's L2 again and again, as tests for snoop filter conflicts do: once
// it is there, every line should stay. The sum of small whole numbers is exact.
//
//   sum [doubles = 125000] [repeats = 100]
#include <cstdint>
#include <cstdio>
#include <vector>

#include "argument.h"
#include "pagelens.h"

int main(int argc, char** argv) {
    const int doubles = argument(argc, argv, 1, 125000, 1000000, "doubles");
    const int repeats = argument(argc, argv, 2, 100, 1000000, "repeats");

    pagelens_region_begin("initialise");
    std::vector<double> data;
    data.reserve(static_cast<std::size_t>(doubles));
    for (int i = 0; i < doubles; ++i) data.push_back(i % 1000);
    pagelens_region_end("initialise");

    double total = 0.0;
    pagelens_region_begin("sum");
    for (int repeat = 0; repeat < repeats; ++repeat) {
        double sum = 0.0;
        for (const double value : data) sum += value;
        total += sum;
    }
    pagelens_region_end("sum");

    const std::int64_t whole = doubles / 1000, rest = doubles % 1000;
    const std::int64_t once = whole * (999 * 1000 / 2) + rest * (rest - 1) / 2;
    const bool ok = total == static_cast<double>(once * repeats);
    std::printf("sum: %d doubles, %d times, %.0f: %s\n", doubles, repeats, total,
                ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}
