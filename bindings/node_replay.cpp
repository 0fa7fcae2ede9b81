#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "bindings/arrays.hpp"
#include "bindings/cancel_flag.hpp"
#include "bindings/dram_sums.hpp"
#include "bindings/register.hpp"
#include "core/replay/compulsory.hpp"
#include "core/replay/node_replay.hpp"
#include "core/replay/object_lines.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using Table = nb::ndarray<nb::numpy, std::uint64_t>;

// [rows][width] from width values a row.
template <class Row, class Values>
nb::object table_of(const std::vector<Row>& rows, std::size_t width, const Values& values) {
    auto data = std::make_unique<std::uint64_t[]>(rows.size() * width);
    std::uint64_t* next = data.get();
    for (const Row& row : rows) next = std::ranges::copy(values(row), next).out;
    return nb::cast(owned<Table>(std::move(data), {rows.size(), width}));
}

std::vector<Excerpt> excerpts_of(const std::vector<std::array<std::uint64_t, 5>>& values) {
    std::vector<Excerpt> excerpts;
    for (const auto& [period, stretch, warm_up, begin, fill] : values)
        excerpts.push_back({period, stretch, warm_up, begin, fill});
    return excerpts;
}

}  // namespace

void register_node_replay(nb::module_& m) {
    nb::class_<NodeModel>(m, "NodeModel",
                          "What a program's lines meet below L1: a hierarchy of caches without L1 "
                          "for each group of cores, a TLB a core, DRAMs that see the same traffic.")
        .def(
            "__init__",
            [](NodeModel* model, std::uint32_t cores, const CacheHierarchy& caches,
               const std::optional<Tlb>& tlb, const std::vector<Dram>& drams) {
                new (model) NodeModel{cores, caches, tlb, drams};
            },
            nb::kw_only(), "cores"_a, "caches"_a, "tlb"_a.none(), "drams"_a);

    nb::class_<NodeCounters>(m, "NodeCounters", "What a node's replay counted, phase by phase.")
        .def_prop_ro(
            "lines",
            [](const NodeCounters& c) {
                return table_of(c.phases, 2,
                                [](const NodePhase& p) { return std::array{p.lines, p.counted}; });
            },
            "uint64[phase, 2]: lines moved by all ranks; of these, while counting.")
        .def_prop_ro(
            "caches",
            [](const NodeCounters& c) {
                return table_of(c.phases, cache_counters,
                                [](const NodePhase& p) { return p.caches; });
            },
            "uint64[phase, counter]; see cache_counter_names().")
        .def_prop_ro(
            "tlb",
            [](const NodeCounters& c) {
                std::vector<TlbCounters> of_phases;
                for (const NodePhase& phase : c.phases) of_phases.push_back(phase.tlb);
                return of_phases;
            },
            "[phase]")
        .def_prop_ro(
            "drams",
            [](const NodeCounters& c) {
                const std::size_t drams = c.phases.front().drams.size();
                std::vector<DramSums> rows;
                for (const NodePhase& phase : c.phases)
                    rows.insert(rows.end(), phase.drams.begin(), phase.drams.end());
                const nb::object flat = table_of(rows, dram_sum_names.size(), values_of);
                return flat.attr("reshape")(c.phases.size(), drams, dram_sum_names.size());
            },
            "uint64[phase, dram, counter]; see dram_sum_names().")
        .def_prop_ro(
            "object_reads",
            [](const NodeCounters& c) {
                return table_of(c.phases, c.phases.front().object_reads.size(),
                                [](const NodePhase& p) { return p.object_reads; });
            },
            "uint64[phase, object]: lines that memory reads.")
        .def_prop_ro(
            "object_writes",
            [](const NodeCounters& c) {
                return table_of(c.phases, c.phases.front().object_writes.size(),
                                [](const NodePhase& p) { return p.object_writes; });
            },
            "uint64[phase, object]")
        .def_ro("huge_pages", &NodeCounters::huge_pages)
        .def_ro("small_fallbacks", &NodeCounters::small_fallbacks);

    m.def("dram_sum_names", [] { return dram_sum_names; });
    m.def(
        "lines_by_phase",
        [](const Program& program) {
            nb::gil_scoped_release release;
            return lines_by_phase(program);
        },
        "program"_a, "Of one copy.");
    m.def(
        "excerpted",
        [](const Program& program, std::uint32_t ranks,
           const std::vector<std::array<std::uint64_t, 5>>& excerpts) {
            nb::gil_scoped_release release;
            return excerpted(program, ranks, excerpts_of(excerpts));
        },
        "program"_a, "ranks"_a, "excerpts"_a,
        "The program without the lines that its replay with these excerpts skips.");
    m.def(
        "compulsory_by_phase",
        [](const Program& program) {
            nb::gil_scoped_release release;
            std::vector<std::pair<std::uint64_t, std::uint64_t>> phases;
            for (const Compulsory& of : compulsory_by_phase(program))
                phases.emplace_back(of.reads, of.writes);
            return phases;
        },
        "program"_a,
        "[phase] lines that memory reads and writes for one copy below infinite caches.");
    m.def(
        "lines_by_object",
        [](const Program& program, bool touched) {
            ObjectLines lines;
            {
                nb::gil_scoped_release release;
                lines = lines_by_object(program, touched);
            }
            return std::tuple(moved(std::move(lines.cleared)), moved(std::move(lines.used)),
                              moved(std::move(lines.in_sequence)), moved(std::move(lines.threads)));
        },
        "program"_a, "touched"_a = false,
        "Of one copy. uint64 [phase * objects + object]: lines that the kernel clears, with the "
        "object that each page was first written for; uint64 [object]: lines fetched or stored "
        "past "
        "the caches, and of these those in sequence; uint32 [object]: threads that used it.");
    m.def(
        "replay_node",
        [](const Program& program, const Placement& placement, const NodeModel& model,
           std::uint32_t ranks, const std::vector<std::array<std::uint64_t, 5>>& excerpts,
           std::uint64_t sets, bool translating, const CancelFlag& cancel) {
            const NodeReplayOptions options{ranks, excerpts_of(excerpts), sets, translating};
            nb::gil_scoped_release release;
            return replay_node(program, placement, model, options, cancel.get());
        },
        "program"_a, "placement"_a, "model"_a, nb::kw_only(), "ranks"_a, "excerpts"_a,
        "sets"_a = all_line_sets, "translating"_a = true, "cancel"_a,
        "excerpts: [period, stretch, warm_up, begin, fill] in lines of all ranks, one a phase; "
        "none: "
        "everything. sets: bit i has the lines at place i of their pages; the others go through no "
        "caches.");
}

}  // namespace pagelens
