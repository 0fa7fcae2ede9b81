#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/register.hpp"
#include "core/accesses/sweeps.hpp"

namespace nb = nanobind;

namespace pagelens {
namespace {

using StreamArgs = std::tuple<unsigned, StreamKind, std::int64_t, std::uint64_t, double, Walk>;
using SweepArgs =
    std::tuple<unsigned, bool, double, std::vector<StreamArgs>, std::vector<unsigned>>;

std::unique_ptr<Program> declare(std::vector<std::uint64_t> array_pages,
                                 const std::vector<SweepArgs>& sweeps,
                                 std::vector<unsigned> phase_repeats, unsigned threads,
                                 bool in_order, const Padding& padding) {
    SweepLoops loops{std::move(array_pages),
                     {},
                     std::move(phase_repeats),
                     threads,
                     in_order ? LineOrder::all : LineOrder::by_set,
                     padding};
    for (const auto& [phase, first_touch, instructions, streams, unmapped] : sweeps) {
        Sweep& sweep =
            loops.sweeps.emplace_back(Sweep{phase, first_touch, instructions, {}, unmapped});
        for (const auto& [array, kind, shift, pages, stride, walk] : streams)
            sweep.streams.push_back({array, kind, shift, pages, stride, walk});
    }
    return declare_sweeps(std::move(loops));
}

}  // namespace

void register_sweeps(nb::module_& m) {
    nb::enum_<StreamKind>(m, "StreamKind")
        .value("read", StreamKind::read)
        .value("write", StreamKind::write)
        .value("stream_store", StreamKind::stream_store);
    nb::enum_<Walk>(m, "Walk")
        .value("parts", Walk::parts)
        .value("shared", Walk::shared)
        .value("serial", Walk::serial)
        .value("random", Walk::random);
    m.def("declare_sweeps", &declare, nb::arg("array_pages"), nb::arg("sweeps"),
          nb::arg("phase_repeats"), nb::arg("threads"), nb::arg("in_order"), nb::arg("padding"),
          "A Program of declared loops; sweeps are (phase, first_touch, instructions per line, "
          "[(array, kind, shift in pages, pages or 0, stride in lines, walk)], arrays unmapped at "
          "the end); in_order: line by line in turn, instead of page by page.");
}

}  // namespace pagelens
