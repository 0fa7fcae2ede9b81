#include "probes/file_loop.hpp"

#include <nanobind/stl/vector.h>

#include "bindings/probes/register.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_file_loop(nb::module_& m) {
    using namespace probes;
    nb::class_<FileLoopResult>(m, "FileLoopResult")
        .def_ro("wall_s", &FileLoopResult::wall_s)
        .def_ro("queued_s", &FileLoopResult::queued_s,
                "Of the wall time, what the thread waited for a processor.")
        .def_ro("cpu_s", &FileLoopResult::cpu_s, "Processor time of the calling thread.")
        .def_ro("bytes", &FileLoopResult::bytes, "Bytes that were moved.");
    m.def(
        "file_loop", &file_loop, nb::call_guard<nb::gil_scoped_release>(), "descriptor"_a,
        "write"_a, "bytes"_a, "offsets"_a,
        "Reads, or writes, `bytes` at each offset of an open file, in their order, until its end.");
    m.def("copy_seconds", &copy_seconds, nb::call_guard<nb::gil_scoped_release>(), "bytes"_a,
          "count"_a, "Seconds that `count` copies of `bytes` from buffer to buffer take.");
}

}  // namespace pagelens
