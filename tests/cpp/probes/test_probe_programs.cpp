#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "probes/cg.hpp"
#include "probes/dgemm.hpp"
#include "probes/failure.hpp"
#include "probes/stencil_matrix.hpp"
#include "tests/cpp/probes/usable_cpus.hpp"

using namespace pagelens::probes;

namespace {

constexpr std::size_t one_array[] = {0};
constexpr std::size_t mib = 1 << 20;

bool neighbours(std::size_t one, std::size_t other, std::size_t side) {
    for (int axis = 0; axis < 3; ++axis, one /= side, other /= side) {
        const std::size_t a = one % side, b = other % side;
        if (a > b + 1 || b > a + 1) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("the stencil's matrix has every pair of neighbours, row by row") {
    for (std::size_t side = 1; side <= 4; ++side) {
        const std::size_t rows = stencil_rows(side), entries = stencil_entries_before(side, rows);
        std::vector<double> values(entries), b(rows);
        std::vector<std::int32_t> columns(entries);
        std::vector<std::int64_t> starts(rows + 1);
        const StencilMatrix a{values.data(), columns.data(), starts.data()};
        fill_stencil(a, b.data(), side, rows / 2, rows);  // in any order
        fill_stencil(a, b.data(), side, 0, rows / 2);
        std::size_t k = 0;
        for (std::size_t row = 0; row < rows; ++row) {
            REQUIRE(starts[row] == static_cast<std::int64_t>(k));
            double sum = 0;
            for (std::size_t column = 0; column < rows; ++column) {
                if (!neighbours(row, column, side)) continue;
                REQUIRE(columns[k] == static_cast<std::int32_t>(column));
                REQUIRE(values[k] == (row == column ? 27 : -1));
                sum += values[k++];
            }
            REQUIRE(b[row] == sum);
        }
        CHECK(k == entries);
        CHECK(starts[rows] == static_cast<std::int64_t>(k));
    }
}

TEST_CASE("conjugate gradients reach the solution, by any number of threads") {
    const auto cpus = usable_cpus(2);
    for (const std::size_t side : {1, 2, 3, 11}) {
        const auto arrays = cg_arrays(side, 4096);
        const Memory memory(arrays.back(), Pages::small, cpus,
                            std::span(arrays).first(arrays.size() - 1));
        for (const std::size_t iterations : {1, 10, 60}) {
            const auto result = cg(memory, side, 4096, iterations, 2, cpus);
            CHECK(result.ok);
            CHECK(result.seconds.size() == 2);
            if (iterations == 60) CHECK(result.residual < 1e-6);
        }
        const Memory::Use use(memory);
        const auto* const x = use.at<double>(arrays[4], stencil_rows(side), "x");
        for (std::size_t i = 0; i < stencil_rows(side); ++i) CHECK(x[i] == doctest::Approx(1));
    }
    CHECK_THROWS_AS((void)cg_arrays(0, 0), std::invalid_argument);
    CHECK_THROWS_AS((void)cg_arrays(1001, 0), std::invalid_argument);
    CHECK_THROWS_AS((void)cg_arrays(4, 8), std::invalid_argument);
    const Memory memory(4096, Pages::small, cpus, one_array);
    CHECK_THROWS_AS((void)cg(memory, 10, 0, 1, 1, cpus), std::invalid_argument);
    CHECK_THROWS_AS((void)cg(memory, 1, 0, 0, 1, cpus), std::invalid_argument);
}

TEST_CASE("a cube of 40 points a side has the entries that HPCCG's has") {
    CHECK(stencil_entries_before(40, stencil_rows(40)) == 118 * 118 * 118);
}

TEST_CASE("DGEMM's answers are looked at, with integers of 4 and 8 bytes") {
    const auto cpus = usable_cpus(1);
    const Memory memory(mib, Pages::small, cpus, one_array);
    const auto with = [&](const char* symbol, std::size_t n, std::size_t integer) {
        return dgemm(memory, n, 64, 2, cpus, PAGELENS_NAIVE_BLAS, symbol, integer);
    };
    CHECK(with("dgemm_", 37, 4).error <= 1);
    CHECK(with("dgemm_", 37, 4).seconds.size() == 2);
    CHECK(with("dgemm_64_", 37, 8).error <= 1);
    CHECK(with("dgemm_", 37, 4).threads_set);
    CHECK(with("wrong_dgemm_", 37, 4).error > 1);
    CHECK(with("no_dgemm_", 37, 4).error > 1);  // it writes nothing
    CHECK_THROWS_AS(with("missing_", 37, 4), Failure);
    CHECK_THROWS_AS(with("dgemm_", 0, 4), std::invalid_argument);
    CHECK_THROWS_AS(with("dgemm_", 8, 2), std::invalid_argument);
    CHECK_THROWS_AS(with("dgemm_", 1000, 4), std::invalid_argument);
    CHECK_THROWS_AS((void)dgemm(memory, 8, 0, 1, cpus, "/nowhere/libblas.so", "dgemm_", 4),
                    Failure);
}
