#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <memory>
#include <span>

#include "bindings/arrays.hpp"
#include "bindings/cancel_flag.hpp"
#include "bindings/dram_sums.hpp"
#include "bindings/register.hpp"
#include "core/replay/physical_lines.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/replay.hpp"
#include "core/replay/rows_behind.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

template <class T>
using Array = nb::ndarray<nb::numpy, T>;

}  // namespace

void register_replay(nb::module_& m) {
    nb::exception<OutOfMemory>(m, "OutOfMemory");
    nb::exception<Cancelled>(m, "Cancelled");

    nb::class_<CancelFlag>(m, "CancelFlag", "set() stops the replays that were given it.")
        .def(nb::init<>())
        .def("set", &CancelFlag::set)
        .def("piece", &CancelFlag::piece,
             "Return a flag that is set with this one, for a piece of the work.")
        .def_prop_ro("share", &CancelFlag::share,
                     "About which share of the latest replay or survey is done, from 0 to 1.")
        .def("__bool__", &CancelFlag::is_set);

    nb::class_<Hierarchy>(m, "Hierarchy", "Cache levels below what a program was compiled for.")
        .def(
            "__init__",
            [](Hierarchy* h, std::uint32_t l2_sets, std::uint32_t l2_ways,
               std::uint32_t l2_shared_by, std::uint32_t slots, std::uint32_t ways,
               const CacheHierarchy* caches) {
                new (h) Hierarchy{l2_sets, l2_ways, l2_shared_by, slots, ways, caches};
            },
            nb::kw_only(), "l2_sets"_a, "l2_ways"_a, "l2_shared_by"_a, "slots"_a, "ways"_a,
            "caches"_a.none() = nb::none(), nb::keep_alive<1, 7>());

    nb::class_<Sampling>(m, "Sampling", "Which slots and which lines of a page are simulated.")
        .def(nb::init<>())
        .def_static("draw", &Sampling::draw, "seed"_a, "node"_a, "colour_bits"_a, "modulus"_a,
                    "line_count"_a, "halvings"_a, "among"_a = ~std::uint64_t{0})
        .def("covers", &Sampling::covers, "frame"_a)
        .def("lines", &Sampling::lines, "frame"_a)
        .def_prop_ro("factor", &Sampling::factor);

    nb::class_<Residency>(m, "Residency", "How the resident pages lie in the slots, at the peak.")
        .def_ro("pages", &Residency::pages)
        .def_ro("conflicting_pages", &Residency::conflicting_pages)
        .def_prop_ro("conflict_share", &Residency::conflict_share)
        .def_prop_ro(
            "map",
            [](Residency& r) {
                return Array<std::uint32_t>(r.map.data(), {r.map.size()}, nb::find(r));
            },
            "Resident pages in each of the bins of neighbouring slots.");

    nb::class_<Counters>(m, "Counters", "What a replay counted; arrays are views of it.")
        .def_ro("phases", &Counters::phases)
        .def_ro("objects", &Counters::objects)
        .def_prop_ro(
            "table",
            [](Counters& c) {
                return Array<std::uint64_t>(c.table.data(), {c.phases, c.objects, components},
                                            nb::find(c));
            },
            "uint64[phase, object, component]; see counter_names().")
        .def_prop_ro(
            "collisions",
            [](const Counters& c) {
                std::vector<std::uint64_t> rows;
                for (const Collision& pair : c.collisions.sorted())
                    rows.insert(rows.end(), {pair.object, pair.victim, pair.lines});
                const std::size_t pairs = rows.size() / 3;
                return moved_as<Array<std::uint64_t>, std::uint64_t>(std::move(rows), {pairs, 3});
            },
            nb::rv_policy::automatic,
            "uint64[pair, 3]: an object, a victim, and the lines of the victim that the object "
            "pushed out.")
        .def_prop_ro(
            "caches",
            [](Counters& c) {
                return Array<std::uint64_t>(c.caches.data(),
                                            {c.caches.size() / cache_counters, cache_counters},
                                            nb::find(c));
            },
            "uint64[phase, counter]; see cache_counter_names(). Of a hierarchy of caches; or "
            "empty.")
        .def_prop_ro(
            "drams",
            [](const Counters& c) {  // a copy, of its own
                const std::size_t values = dram_sum_names.size();
                auto data = std::make_unique<std::uint64_t[]>(c.drams.size() * values + 1);
                std::uint64_t* next = data.get();
                for (const DramSums& sums : c.drams)
                    next = std::ranges::copy(values_of(sums), next).out;
                return nb::cast(owned<Array<std::uint64_t>>(
                    std::move(data), {c.phases, c.drams.size() / c.phases, values}));
            },
            "uint64[phase, dram, counter]; see dram_sum_names(). Of the stretches of RowModel "
            "alone.")
        .def_prop_ro(
            "residency", [](Counters& c) { return &c.residency; },
            nb::rv_policy::reference_internal)
        .def_ro("huge_pages", &Counters::huge_pages)
        .def_ro("small_fallbacks", &Counters::small_fallbacks);

    nb::class_<PhysicalLines>(
        m, "PhysicalLines", "The lines that one copy of a program moves on a placement, in order.")
        .def(
            "__init__",
            [](PhysicalLines* lines, const Program& program, const Placement& placement,
               std::uint32_t l2_sets, std::uint32_t l2_ways, std::uint32_t l2_shared_by) {
                nb::gil_scoped_release release;
                new (lines)
                    PhysicalLines(program, placement, PrivateL2{l2_sets, l2_ways, l2_shared_by});
            },
            "program"_a, "placement"_a, nb::kw_only(), "l2_sets"_a, "l2_ways"_a, "l2_shared_by"_a,
            nb::keep_alive<1, 2>())
        .def(
            "next",
            [](PhysicalLines& lines) {
                std::span<const std::uint64_t> some;
                {
                    nb::gil_scoped_release release;
                    some = lines.next();
                }
                auto data = std::make_unique<std::uint64_t[]>(some.size());
                std::copy(some.begin(), some.end(), data.get());
                return owned<Array<std::uint64_t>>(std::move(data), {some.size()});
            },
            "Some more physical addresses, | 2^63 where written; an empty array at the end.")
        .def(
            "frames",
            [](const PhysicalLines& lines) {
                const std::span<const std::uint32_t> frames = lines.frames();
                auto data = std::make_unique<std::uint32_t[]>(frames.size());
                std::copy(frames.begin(), frames.end(), data.get());
                return owned<Array<std::uint32_t>>(std::move(data), {frames.size()});
            },
            "The frame that each page of the program had last so far, uint32; NO_FRAME for none.");

    m.attr("PHYSICAL_WRITE") = PhysicalLines::write_bit;
    m.attr("NO_FRAME") = PhysicalLines::no_frame;
    m.attr("LARGE_PAGE_LEAST_SHARE") = RankPages::least_share;
    m.def("counter_names", [] { return component_names; });
    m.def(
        "replay",
        [](const Program& program, const Placement& placement, const Hierarchy& hierarchy,
           std::uint32_t ranks, const Sampling& sampling, bool scaled, bool two_way, bool ideal,
           std::uint32_t map_bins, std::uint64_t seed, std::uint32_t node, const RowModel* rows,
           const CancelFlag& cancel) {
            const ReplayOptions options{ranks,    sampling, scaled, two_way, ideal,
                                        map_bins, seed,     node,   rows};
            nb::gil_scoped_release release;
            return replay(program, placement, hierarchy, options, cancel.under_way());
        },
        "program"_a, "placement"_a, "hierarchy"_a, nb::kw_only(), "ranks"_a, "sampling"_a,
        "scaled"_a, "two_way"_a, "ideal"_a, "map_bins"_a, "seed"_a, "node"_a,
        "rows"_a.none() = nb::none(), "cancel"_a);
}

}  // namespace pagelens
