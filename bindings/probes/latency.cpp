#include "probes/latency.hpp"

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_latency(nb::module_& m) {
    using namespace probes;
    nb::class_<LatencyResult>(m, "LatencyResult")
        .def_prop_ro("seconds", &seconds_of<LatencyResult>, nb::rv_policy::move,
                     "float64[repeats]: of `loads` loads each.")
        .def_ro("ok", &LatencyResult::ok, "The chase met every place once before it came back.");
    m.def("latency", &latency, nb::call_guard<nb::gil_scoped_release>(), "memory"_a,
          "footprint_bytes"_a, "stride"_a, "loads"_a, "repeats"_a, "cpu"_a, "seed"_a,
          "Chases pointers around one random cycle through a random line of each `stride` bytes of "
          "the footprint, which is walked once before to warm up. Stride 64: every line; 4096: one "
          "line a page, which separates what translation costs from what caches do.");
}

}  // namespace pagelens
