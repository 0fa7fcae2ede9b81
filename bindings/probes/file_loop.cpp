#include "probes/file_loop.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings/probes/register.hpp"
#include "probes/alternate_writes.hpp"

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
        .def_ro("bytes", &FileLoopResult::bytes, "Bytes that were moved.")
        .def_ro("parts_cpu_s", &FileLoopResult::parts_cpu_s,
                "Processor times of equal numbers of operations, one after the other.");
    m.def(
        "file_loop", &file_loop, nb::call_guard<nb::gil_scoped_release>(), "descriptor"_a,
        "write"_a, "bytes"_a, "offsets"_a,
        "Reads, or writes, `bytes` at each offset of an open file, in their order, until its end.");
    m.def("queued_loop", &queued_loop, nb::call_guard<nb::gil_scoped_release>(), "descriptor"_a,
          "write"_a, "bytes"_a, "offsets"_a, "depth"_a,
          "Does the same with up to `depth` direct transfers in flight (io_submit).");
    m.def(
        "replay_operations",
        [](const Input<std::int32_t>& descriptors, const Input<std::int32_t>& kinds,
           const Input<std::int64_t>& offsets, const Input<std::uint64_t>& bytes,
           const Input<std::uint8_t>& flights, bool copied, std::size_t depth) {
            const FileOperations operations{span_of(descriptors), span_of(kinds), span_of(offsets),
                                            span_of(bytes), span_of(flights)};
            const nb::gil_scoped_release release;
            return replay_operations(operations, copied, depth);
        },
        "descriptors"_a, "kinds"_a, "offsets"_a, "bytes"_a, "flights"_a, "copied"_a, "depth"_a,
        "Makes operations one after the other: kind 0 reads, 1 writes, 2 is fsync. A transfer with "
        "a flight of 1 can be in flight with others, and 2 is the last of them.");
    m.def(
        "transfer_after_work",
        [](int descriptor, bool write, std::size_t bytes, std::size_t work_bytes,
           const std::vector<std::int64_t>& offsets) {
            const TransferAfterWork found =
                transfer_after_work(descriptor, write, bytes, work_bytes, offsets);
            return std::pair(found.transfer_s, found.work_s);
        },
        nb::call_guard<nb::gil_scoped_release>(), "descriptor"_a, "write"_a, "bytes"_a,
        "work_bytes"_a, "offsets"_a,
        "Returns the median seconds of transfers of `bytes`, each after other memory of "
        "`work_bytes` was touched, and of this work.");
    m.def("alternate_writes", &alternate_writes, nb::call_guard<nb::gil_scoped_release>(),
          "descriptor"_a, "bytes"_a, "offsets"_a, "other_core"_a,
          "Writes `bytes` at each offset in turn by this thread and by one on another processor. "
          "Returns the processor seconds of each write but the first.");
    m.def("call_seconds", &call_seconds, nb::call_guard<nb::gil_scoped_release>(), "descriptor"_a,
          "count"_a, "Processor seconds of a system call that does nothing.");
    m.def("copy_seconds", &copy_seconds, nb::call_guard<nb::gil_scoped_release>(), "bytes"_a,
          "count"_a, "Seconds that `count` copies of `bytes` from buffer to buffer take.");
}

}  // namespace pagelens
