// nanobind of the TLB: core/machine/tlb.hpp, page_tables.hpp, core/replay/tlb_replay.hpp.
#include <nanobind/ndarray.h>
#include <nanobind/operators.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "bindings/signals.hpp"
#include "core/machine/tlb.hpp"
#include "core/replay/tlb_replay.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

namespace {

using Sizes = Input<std::uint8_t>;
using EntriesAndWays = std::pair<std::uint32_t, std::uint32_t>;  // entries, ways

// The core checks each of them.
std::span<const PageSize> sizes_of(const Sizes& sizes) {
    static_assert(sizeof(PageSize) == 1);
    return {reinterpret_cast<const PageSize*>(sizes.data()), sizes.size()};
}

TlbShape shape_of(EntriesAndWays shape) { return {shape.first, shape.second}; }

void register_page_tables(nb::module_& m) {
    nb::enum_<PageSize>(m, "PageSize", nb::is_arithmetic())
        .value("small", PageSize::small, "4 KiB")
        .value("large", PageSize::large, "2 MiB")
        .value("huge", PageSize::huge, "1 GiB");
    nb::class_<PageTables>(
        m, "PageTables",
        "The frames of one address space's page tables (core/machine/page_tables.hpp).")
        .def(nb::init<>())
        .def(
            "map",
            [](PageTables& tables, Input<std::uint64_t> addresses, PageSize size,
               Input<std::uint32_t> frames) {
                std::size_t used = 0;
                const nb::gil_scoped_release released;
                for (const std::uint64_t address : span_of(addresses))
                    tables.map(VirtualAddress(address), size, [&] {
                        if (used == frames.size())
                            throw std::invalid_argument("more tables than frames for them");
                        return Frame(frames.data()[used++]);
                    });
                return used;
            },
            "addresses"_a, "size"_a, "frames"_a,
            "Makes the tables that pages at these addresses need, in frames[0], frames[1] ...; "
            "says how "
            "many were taken. Raises ValueError.");
}

void register_counters(nb::module_& m) {
    nb::class_<TlbCounters>(
        m, "TlbCounters",
        "Lists are by page size (4 KiB, 2 MiB, 1 GiB) or by table level (page table, "
        "page directory, PDPT, PML4).")
        .def(nb::init<>())
        .def_ro("lookups", &TlbCounters::lookups)
        .def_ro("stlb_hits", &TlbCounters::stlb_hits,
                "By size: missed the first level, found in the second.")
        .def_prop_ro("dtlb_misses", &TlbCounters::dtlb_misses, "By size: missed the first level.")
        .def_prop_ro("walks_completed", &TlbCounters::walks_completed, "By size.")
        .def_prop_ro("walker_loads", &TlbCounters::walker_loads,
                     "By level: entries of such tables that walks read.")
        .def_prop_ro("structure_hits", &TlbCounters::structure_hits,
                     "By level: walks that began below a cached entry of such a table.")
        .def(nb::self += nb::self, nb::rv_policy::none);
}

}  // namespace

void register_tlb(nb::module_& m) {
    register_page_tables(m);
    register_counters(m);

    using BySize = std::array<bool, page_sizes>;
    nb::class_<TlbForm::Array>(m, "TlbArray", "One array of a TLB (core/machine/tlb.hpp).")
        .def(
            "__init__",
            [](TlbForm::Array* array, unsigned level, EntriesAndWays shape, bool folded,
               BySize holds, BySize pieces, bool directory) {
                new (array)
                    TlbForm::Array{level, shape_of(shape), folded, holds, pieces, directory};
            },
            "level"_a, "shape"_a, "folded"_a, "holds"_a, "pieces"_a, "directory"_a,
            "shape: entries, ways; holds, pieces: by page size.");

    nb::class_<Tlb>(m, "Tlb", "A core's data TLB (core/machine/tlb.hpp).")
        .def(
            "__init__",
            [](Tlb* tlb, std::vector<TlbForm::Array> arrays, EntriesAndWays pde,
               EntriesAndWays pdpte, EntriesAndWays pml4e, bool ideal) {
                new (tlb) Tlb({std::move(arrays),
                               {TlbShape{}, shape_of(pde), shape_of(pdpte), shape_of(pml4e)},
                               ideal});
            },
            "arrays"_a, "pde_cache"_a, "pdpte_cache"_a, "pml4e_cache"_a, "ideal"_a,
            "Caches: entries, ways. Raises ValueError if the form is impossible.")
        .def("copy", [](const Tlb& tlb) { return tlb; })
        .def("supports", &Tlb::supports, "size"_a)
        .def(
            "translate",
            [](Tlb& tlb, Input<std::uint64_t> addresses, PageSize size) {
                TlbCounters counters;
                const nb::gil_scoped_release released;
                tlb.translate(span_of(addresses), size, counters);
                return counters;
            },
            "addresses"_a, "size"_a, "All on pages of one size. Raises ValueError.")
        .def(
            "translate",
            [](Tlb& tlb, Input<std::uint64_t> addresses, Sizes sizes) {
                TlbCounters counters;
                const nb::gil_scoped_release released;
                tlb.translate(span_of(addresses), sizes_of(sizes), counters);
                return counters;
            },
            "addresses"_a, "sizes"_a, "Each on a page of sizes[i] (values of PageSize).")
        .def(
            "translate",
            [](Tlb& tlb, Input<std::uint64_t> addresses, Sizes sizes, const PageTables& tables) {
                TlbCounters counters;
                WalkReads reads;
                {
                    const nb::gil_scoped_release released;
                    tlb.translate(span_of(addresses), sizes_of(sizes), tables, counters, reads);
                }
                return std::tuple(counters, moved(std::move(reads.entries)),
                                  moved(std::move(reads.translations)));
            },
            "addresses"_a, "sizes"_a, "tables"_a,
            "Also what walks read, in their order: physical byte addresses of page-table entries, "
            "and "
            "the index of the address that each was read for.")
        .def(
            "invalidate",
            [](Tlb& tlb, std::uint64_t page, std::uint64_t count) {
                tlb.invalidate(VirtualPage(page), count);
            },
            "page"_a, "count"_a, "Pages of 4 KiB are unmapped.")
        .def("flush", &Tlb::flush);

    m.def(
        "trace_is_exact_for",
        [](const TraceReader& trace, const Tlb& tlb, PageSize size) {
            return is_exact_for(trace.header(), tlb, size);
        },
        "trace"_a, "tlb"_a, "size"_a,
        "Whether the trace's page filter kept what this TLB has to see.");
    m.def(
        "replay_pages",
        [](const TraceReader& trace, const Tlb& tlb, PageSize size) {
            const nb::gil_scoped_release released;
            return replay_pages(trace, tlb, size, check_signals);
        },
        "trace"_a, "tlb"_a, "size"_a,
        "Counters [phase * threads + thread] of a TLB a thread; but for `lookups`, of which the "
        "trace "
        "has not all. Raises ValueError if the trace is not exact for the TLB.");
}

}  // namespace pagelens
