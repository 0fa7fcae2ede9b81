#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"
#include "probes/caches.hpp"
#include "probes/stream.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_stream(nb::module_& m) {
    using namespace probes;
    nb::enum_<Isa>(m, "Isa", "Vector instructions that the loops exist for.")
        .value("sse2", Isa::sse2)
        .value("avx2", Isa::avx2)
        .value("avx512", Isa::avx512);
    m.def("isas", &isas, "Those that this processor runs, the widest last.");

    m.def("best_isa", &best_isa,
          "The widest of them that the processor's load and store units take whole.");

    nb::enum_<StreamKernel>(m, "StreamKernel", "STREAM's four.")
        .value("copy", StreamKernel::copy, "c = a")
        .value("scale", StreamKernel::scale, "b = 3 c")
        .value("add", StreamKernel::add, "c = a + b")
        .value("triad", StreamKernel::triad, "a = b + 3 c");
    nb::enum_<Stores>(m, "Stores")
        .value("plain", Stores::plain)
        .value("nontemporal", Stores::nontemporal, "past the caches");
    nb::enum_<Order>(m, "Order")
        .value("in_turn", Order::in_turn,
               "each thread from its first element to its last, as STREAM")
        .value("spread", Order::spread,
               "each thread at four places of its share in turn: faster from memory");
    m.def(
        "better_stores",
        [](StreamKernel kernel, const nb::int_& n, const std::vector<int>& cpus) {
            // This is not read as std::size_t, because too large a number would be a TypeError.
            const std::size_t doubles = PyLong_AsSize_t(n.ptr());
            if (PyErr_Occurred() != nullptr) throw nb::python_error();
            return better_stores(kernel, doubles, cpus);
        },
        "kernel"_a, "n"_a, "cpus"_a,
        "nontemporal where the kernel's arrays are larger than the processors' last-level caches. "
        "OverflowError: n below 0 or of more than 64 bits.");
    m.def(
        "last_level_bytes", [](const std::vector<int>& cpus) { return last_level_bytes(cpus); },
        "cpus"_a,
        "Of the last-level caches that the processors use, each counted once; 0 where the kernel "
        "does "
        "not show them.");
    m.def("stream_bytes", &stream_bytes, "kernel"_a,
          "Bytes of an element as STREAM counts them: 16 or 24, write allocate not among them.");

    nb::class_<StreamResult>(m, "StreamResult")
        .def_prop_ro(
            "seconds", &seconds_of<StreamResult>, nb::rv_policy::move,
            "float64[repeats]: the slowest thread's; the first repetition is to be left out.")
        .def_ro("error", &StreamResult::error,
                "Largest relative error of an element; STREAM allows 1e-13.");
    m.def(
        "stream",
        [](const Memory& memory, StreamKernel kernel, std::size_t n, std::size_t offset_bytes,
           std::size_t repeats, const std::vector<int>& cpus, Isa isa, Stores stores, Order order) {
            const nb::gil_scoped_release release;
            return stream(memory, kernel, n, offset_bytes, repeats, cpus, isa, stores, order);
        },
        "memory"_a, "kernel"_a, "n"_a, "offset_bytes"_a, "repeats"_a, "cpus"_a, "isa"_a, "stores"_a,
        "order"_a,
        "Runs one of STREAM's kernels over arrays a, b, c of n doubles at 0, d, 2 d bytes of the "
        "memory, d = 8 n + offset_bytes (8 times STREAM's OFFSET), and checks every element.");
}

}  // namespace pagelens
