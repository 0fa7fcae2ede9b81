#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"
#include "probes/conflict.hpp"
#include "probes/l2sum.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

namespace {

using Table = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

Table table_of(const probes::L2SumResult& result) {
    const std::size_t repeats = result.seconds.size() / result.cores;
    return moved_as<Table, double>(result.seconds, {repeats, result.cores});
}

}  // namespace

void register_l2sum_conflict(nb::module_& m) {
    using namespace probes;
    nb::class_<L2SumResult>(m, "L2SumResult")
        .def_prop_ro("seconds", &table_of, nb::rv_policy::move,
                     "float64[repeats, cores]: of `sweeps` sums of the core's block.")
        .def_ro("ok", &L2SumResult::ok, "Every sum was exact.");
    m.def(
        "l2sum",
        [](const Memory& memory, std::size_t block_bytes, std::size_t apart_bytes,
           std::size_t sweeps, std::size_t repeats, const std::vector<int>& cpus, Isa isa) {
            const nb::gil_scoped_release release;
            return l2sum(memory, block_bytes, apart_bytes, sweeps, repeats, cpus, isa);
        },
        "memory"_a, "block_bytes"_a, "apart_bytes"_a, "sweeps"_a, "repeats"_a, "cpus"_a, "isa"_a,
        "The core on cpus[i] sums block_bytes of doubles at i * apart_bytes, `sweeps` times in "
        "each "
        "repetition, all at once: a byte is one that is read. The published test for snoop filter "
        "conflicts (github.com/jdmccalpin/SKX-SF-Conflicts) has blocks of 1,000,000 bytes.");

    nb::enum_<ConflictKind>(m, "ConflictKind")
        .value("read", ConflictKind::read, "both streams")
        .value("write", ConflictKind::write, "both streams")
        .value("copy", ConflictKind::copy, "the first into the second");
    nb::class_<ConflictResult>(m, "ConflictResult")
        .def_prop_ro("seconds", &seconds_of<ConflictResult>, nb::rv_policy::move,
                     "float64[repeats]")
        .def_ro("ok", &ConflictResult::ok, "Sums or contents are right.");
    m.def("conflict", &conflict, nb::call_guard<nb::gil_scoped_release>(), "memory"_a,
          "first_offset"_a, "second_offset"_a, "bytes"_a, "kind"_a, "repeats"_a, "cpu"_a,
          "Streams through `bytes` at each of two offsets of the memory, a line of each in turn: a "
          "byte is one that is read or written, 2 * bytes a repetition.");
}

}  // namespace pagelens
