#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"
#include "probes/cg.hpp"
#include "probes/dgemm.hpp"
#include "probes/gups.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using namespace probes;

void register_gups(nb::module_& m) {
    m.attr("least_gups_table") = least_gups_table;
    nb::class_<GupsResult>(m, "GupsResult")
        .def_ro("seconds", &GupsResult::seconds, "Of all updates, the slowest thread's.")
        .def_ro("updates", &GupsResult::updates)
        .def_ro(
            "errors", &GupsResult::errors,
            "Words that lost updates to other threads, which the rules allow; 0 with one thread.")
        .def_ro("official", &GupsResult::official,
                "HPCC's rules were followed: the largest table of 2^k words within half of the "
                "memory, 4 updates a word, looking ahead by at most 1024, errors in at most 1%.");
    m.def(
        "gups",
        [](const Memory& memory, std::size_t table_bytes, std::uint64_t updates,
           const std::vector<int>& cpus) {
            const nb::gil_scoped_release release;
            return gups(memory, table_bytes, updates, cpus);
        },
        "memory"_a, "table_bytes"_a, "updates"_a, "cpus"_a,
        "RandomAccess of HPC Challenge: random updates of a table of 2^k 64-bit words, checked by "
        "making them once more. `updates` is a multiple of 128. GUPS is updates / seconds / 1e9.");
}

void register_cg(nb::module_& m) {
    m.attr("most_cg_side") = most_cg_side;
    m.attr("most_cg_iterations") = most_cg_iterations;
    m.def(
        "cg_arrays", &cg_arrays, "side"_a, "offset_bytes"_a,
        "Where values, columns, starts, b, x, r, p and A p begin, bytes, each offset_bytes behind "
        "the one before; the ninth number is the end of all.");
    m.def("cg_bytes", &cg_bytes, "side"_a,
          "Bytes that one iteration's loops read and write: 12 an entry of the matrix, 112 a row.");
    nb::class_<CgResult>(m, "CgResult")
        .def_prop_ro("seconds", &seconds_of<CgResult>, nb::rv_policy::move,
                     "float64[repeats]: of all iterations from x = 0.")
        .def_ro("residual", &CgResult::residual, "|b - A x| / |b|")
        .def_ro("drift", &CgResult::drift, "Of the iterations' residual from it, in |b|.")
        .def_ro("ok", &CgResult::ok, "The drift is rounding, the residual what theory allows.");
    m.def(
        "cg",
        [](const Memory& memory, std::size_t side, std::size_t offset_bytes, std::size_t iterations,
           std::size_t repeats, const std::vector<int>& cpus) {
            const nb::gil_scoped_release release;
            return cg(memory, side, offset_bytes, iterations, repeats, cpus);
        },
        "memory"_a, "side"_a, "offset_bytes"_a, "iterations"_a, "repeats"_a, "cpus"_a,
        "Conjugate gradients on a 27-point stencil of side^3 points, as a sparse matrix, in arrays "
        "placed as cg_arrays has it.");
}

void register_dgemm(nb::module_& m) {
    m.attr("most_dgemm_order") = most_dgemm_order;
    nb::class_<DgemmResult>(m, "DgemmResult")
        .def_prop_ro("seconds", &seconds_of<DgemmResult>, nb::rv_policy::move,
                     "float64[repeats]: of 2 n^3 operations each.")
        .def_ro("error", &DgemmResult::error,
                "Largest of 64 elements, in units of what rounding allows: right up to 1.")
        .def_ro("threads_set", &DgemmResult::threads_set,
                "The library was told how many threads to use.");
    m.def(
        "dgemm",
        [](const Memory& memory, std::size_t n, std::size_t offset_bytes, std::size_t repeats,
           const std::vector<int>& cpus, const std::string& library, const std::string& symbol,
           std::size_t integer_bytes) {
            const nb::gil_scoped_release release;
            return dgemm(memory, n, offset_bytes, repeats, cpus, library, symbol, integer_bytes);
        },
        "memory"_a, "n"_a, "offset_bytes"_a, "repeats"_a, "cpus"_a, "library"_a, "symbol"_a,
        "integer_bytes"_a,
        "C = A B of n x n doubles at 0, d, 2 d bytes of the memory, d = 8 n n + offset_bytes, by "
        "the routine `symbol` (dgemm_) of a BLAS library with integers of 4 or 8 bytes. The "
        "library "
        "stays loaded and keeps its number of threads.");
}

}  // namespace

void register_programs(nb::module_& m) {
    register_gups(m);
    register_cg(m);
    register_dgemm(m);
}

}  // namespace pagelens
