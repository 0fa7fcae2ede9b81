#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <span>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/machine/set_counts.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

// Returns a new array with what `fill` writes into it.
template <class T, class Fill>
Output<T> filled(std::size_t size, Fill fill) {
    auto data = std::make_unique<T[]>(size);
    {
        nb::gil_scoped_release release;
        fill(std::span<T>(data.get(), size));
    }
    return owned<Output<T>>(std::move(data), {size});
}

template <class T>
Output<T> copy_of(std::span<const T> values) {
    return filled<T>(values.size(), [values](std::span<T> out) {
        std::copy(values.begin(), values.end(), out.begin());
    });
}

Extents extents_of(const Input<std::uint64_t>& addresses, const Input<std::uint32_t>& lines) {
    if (addresses.size() != lines.size()) {
        throw nb::value_error("addresses and lines must be as many");
    }
    return {span_of(addresses), span_of(lines)};
}

}  // namespace

void register_conflicts(nb::module_& m) {
    using Addresses = Input<std::uint64_t>;
    using Lines = Input<std::uint32_t>;

    nb::class_<SetCounts>(m, "SetCounts",
                          "How many lines fall to each set of a sliced cache or snoop filter. "
                          "Pieces of memory are given as addresses and numbers of lines.")
        .def(nb::init<AddressHash, std::uint32_t, std::uint32_t>(), "slices"_a, "sets"_a, "ways"_a)
        .def(nb::init<const SetCounts&>(), "other"_a)
        .def(
            "add",
            [](SetCounts& counts, const Addresses& addresses, const Lines& lines) {
                const Extents extents = extents_of(addresses, lines);
                nb::gil_scoped_release release;
                counts.add(extents);
            },
            "addresses"_a, "lines"_a)
        .def(
            "remove",
            [](SetCounts& counts, const Addresses& addresses, const Lines& lines) {
                const Extents extents = extents_of(addresses, lines);
                nb::gil_scoped_release release;
                counts.remove(extents);
            },
            "addresses"_a, "lines"_a, "Of what has been added.")
        .def("clear", &SetCounts::clear)
        .def_prop_ro("excess", &SetCounts::excess, "Lines beyond the ways of their sets.")
        .def("excess_with", &SetCounts::excess_with, "other"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "What the excess were with the lines of another one, too.")
        .def(
            "histogram",
            [](const SetCounts& counts) { return copy_of<std::uint64_t>(counts.histogram()); },
            "[n]: sets that n lines fall to.")
        .def(
            "crowded",
            [](const SetCounts& counts, const Addresses& addresses, const Lines& lines) {
                const Extents extents = extents_of(addresses, lines);
                return filled<std::uint32_t>(addresses.size(), [&](std::span<std::uint32_t> out) {
                    counts.crowded(extents, out);
                });
            },
            "addresses"_a, "lines"_a,
            "Of each piece the lines in sets that more fall to than they have ways.")
        .def(
            "crowded_lines",
            [](const SetCounts& counts, const Addresses& addresses, const Lines& lines) {
                return copy_of<std::uint64_t>(counts.crowded_lines(extents_of(addresses, lines)));
            },
            "addresses"_a, "lines"_a, "Their addresses.")
        .def(
            "counts", [](const SetCounts& counts) { return copy_of(counts.counts()); },
            "Lines of each set, slice after slice.")
        .def_prop_ro("sets", &SetCounts::sets, "Of a slice.")
        .def_prop_ro("ways", &SetCounts::ways);
}

}  // namespace pagelens
