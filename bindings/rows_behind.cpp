#include "core/replay/rows_behind.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "bindings/register.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_rows_behind(nb::module_& m) {
    nb::class_<RowStretches>(
        m, "RowStretches", "Parts of a program with all lines in their order, and where they lie.")
        .def(
            "__init__",
            [](RowStretches* stretches, const Program& in_order,
               const std::vector<std::array<std::uint64_t, 4>>& excerpts) {
                std::vector<Excerpt> of_phases;
                for (const auto& [period, stretch, warm_up, begin] : excerpts)
                    of_phases.push_back({period, stretch, warm_up, begin});
                nb::gil_scoped_release release;
                new (stretches) RowStretches(in_order, of_phases);
            },
            "in_order"_a, "excerpts"_a,
            "excerpts: [period, stretch, warm_up, begin] in lines of one copy, one a phase; period "
            "0: everything.")
        .def_prop_ro("counted", &RowStretches::counted, "Lines of one copy that are counted.");

    nb::class_<RowModel>(m, "RowModel",
                         "DRAM behind a memory-side cache, timed for stretches of a program.")
        .def(
            "__init__",
            [](RowModel* model, const RowStretches* stretches,
               const std::vector<std::uint64_t>& lines, const CacheHierarchy* caches,
               const std::vector<Dram>& drams) {
                new (model) RowModel{stretches, lines, caches, drams};
            },
            nb::kw_only(), "stretches"_a, "lines"_a, "caches"_a.none(), "drams"_a,
            nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(),
            "lines: most_lines_by_phase() of the program that is replayed; caches: of a group of "
            "cores, "
            "before the memory-side cache; drams: each is fed the same.");
}

}  // namespace pagelens
