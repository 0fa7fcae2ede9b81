#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
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
#include "core/replay/first_touch.hpp"
#include "core/replay/memory_tiers.hpp"
#include "core/replay/moving_threads.hpp"
#include "core/replay/node_replay.hpp"
#include "core/replay/numa_balancing.hpp"
#include "core/replay/object_lines.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using CountTable = nb::ndarray<nb::numpy, std::uint64_t>;

// [rows][width] from width values a row.
template <class Row, class Values>
nb::object table_of(const std::vector<Row>& rows, std::size_t width, const Values& values) {
    auto data = std::make_unique<std::uint64_t[]>(rows.size() * width);
    std::uint64_t* next = data.get();
    for (const Row& row : rows) next = std::ranges::copy(values(row), next).out;
    return nb::cast(owned<CountTable>(std::move(data), {rows.size(), width}));
}

using Placing = std::shared_ptr<const NumaPlacing>;

struct Stretch {
    std::uint64_t phase, number;
    const NodeStretch* counts;
};

// Returns the stretches in which something was counted.
std::vector<Stretch> stretches_of(const NodeCounters& counters) {
    std::vector<Stretch> found;
    for (std::uint64_t phase = 0; phase < counters.phases.size(); ++phase) {
        const auto& stretches = counters.phases[phase].stretches;
        for (std::uint64_t number = 0; number < stretches.size(); ++number)
            if (stretches[number].lines != 0 || stretches[number].cleared != 0)
                found.push_back({phase, number, &stretches[number]});
    }
    return found;
}

nb::object drams_table(const std::vector<std::vector<DramSums>>& rows, std::size_t drams) {
    std::vector<DramSums> flat;
    for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
    const nb::object table = table_of(flat, dram_sum_names.size(), values_of);
    return table.attr("reshape")(rows.size(), drams, dram_sum_names.size());
}

std::vector<Excerpt> excerpts_of(const std::vector<std::array<std::uint64_t, 5>>& values) {
    std::vector<Excerpt> excerpts;
    for (const auto& [period, stretch, warm_up, begin, recalled] : values)
        excerpts.push_back({period, stretch, warm_up, begin, recalled});
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
               const std::optional<Tlb>& tlb, const std::vector<Dram>& drams,
               std::optional<PageSize> host_page) {
                new (model) NodeModel{cores, caches, tlb, drams, host_page};
            },
            nb::kw_only(), "cores"_a, "caches"_a, "tlb"_a.none(), "drams"_a,
            "host_page"_a = nb::none());

    nb::class_<NodeCounters>(m, "NodeCounters", "What a node's replay counted, phase by phase.")
        .def_prop_ro(
            "lines",
            [](const NodeCounters& c) {
                return table_of(c.phases, 4, [](const NodePhase& p) {
                    return std::array{p.lines, p.cleared, p.cleared_large, p.simulated_large};
                });
            },
            "uint64[phase, 4]: lines moved by all ranks, without cleared ones; lines that the "
            "kernel clears; of these, in large pages; of these, simulated.")
        .def_prop_ro(
            "stretches",
            [](const NodeCounters& c) {
                return table_of(stretches_of(c), 4, [](const Stretch& s) {
                    return std::array{s.phase, s.number, s.counts->lines, s.counts->cleared};
                });
            },
            "uint64[stretch, 4]: its phase; its number there; lines moved while it was counted, "
            "without cleared ones; lines cleared through caches and DRAM among what is counted "
            "here.")
        .def_prop_ro(
            "caches",
            [](const NodeCounters& c) {
                return table_of(stretches_of(c), cache_counters,
                                [](const Stretch& s) { return s.counts->caches; });
            },
            "uint64[stretch, counter]; see cache_counter_names().")
        .def_prop_ro(
            "tlb",
            [](const NodeCounters& c) {
                std::vector<TlbCounters> found;
                for (const Stretch& stretch : stretches_of(c)) found.push_back(stretch.counts->tlb);
                return found;
            },
            "[stretch]")
        .def_prop_ro(
            "drams",
            [](const NodeCounters& c) {
                std::vector<std::vector<DramSums>> rows;
                for (const Stretch& stretch : stretches_of(c))
                    rows.push_back(stretch.counts->drams);
                return drams_table(rows, c.phases.front().large_drams.size());
            },
            "uint64[stretch, dram, counter]; see dram_sum_names().")
        .def_prop_ro(
            "large_drams",
            [](const NodeCounters& c) {
                std::vector<std::vector<DramSums>> rows;
                for (const NodePhase& phase : c.phases) rows.push_back(phase.large_drams);
                return drams_table(rows, c.phases.front().large_drams.size());
            },
            "uint64[phase, dram, counter]: while large pages were cleared.")
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
        .def_prop_ro(
            "numa_lines",
            [](const NodeCounters& c) {
                return table_of(c.phases, c.phases.front().numa_lines.size(),
                                [](const NodePhase& p) { return p.numa_lines; });
            },
            "uint64[phase, object * from * to * 2]: lines that cores of a NUMA node read from and "
            "write to each node's memory, without cleared ones; empty with one node.")
        .def_prop_ro(
            "numa_cleared",
            [](const NodeCounters& c) {
                std::size_t width = 0;
                for (const NodePhase& p : c.phases) width = std::max(width, p.numa_cleared.size());
                return table_of(c.phases, width, [&](const NodePhase& p) {
                    auto cleared = p.numa_cleared;
                    cleared.resize(width);
                    return cleared;
                });
            },
            "uint64[phase, from * to]: lines that the kernel cleared, or empty.")
        .def_prop_ro(
            "balancing",
            [](const NodeCounters& c) {
                return table_of(c.phases, 3, [](const NodePhase& p) {
                    return std::array{p.hint_faults, p.pages_moved, p.pages_demoted};
                });
            },
            "uint64[phase, 3]: hinting faults of NUMA balancing, pages that it moved, and pages "
            "that "
            "it demoted.")
        .def_ro("huge_pages", &NodeCounters::huge_pages)
        .def_ro("small_fallbacks", &NodeCounters::small_fallbacks)
        .def_ro("sf_evictions", &NodeCounters::sf_evictions,
                "By the snoop filter, of all that was simulated, counted or not.");

    m.def(
        "first_touch",
        [](const Program& program, const std::vector<std::uint8_t>& node_of_thread) {
            if (node_of_thread.size() != program.threads())
                throw std::invalid_argument("node_of_thread: needs an entry for each thread");
            FirstTouch found;
            {
                nb::gil_scoped_release release;
                found = first_touch(program, node_of_thread);
            }
            return std::tuple(moved(std::move(found.user)), moved(std::move(found.object)),
                              moved(std::move(found.far_lines)), found.lines);
        },
        "program"_a, "node_of_thread"_a,
        "uint16[page]: the thread that uses it most once it is handed over; uint16[page]: the "
        "object that it was first touched for; uint64[object]: lines that were first touched on "
        "another NUMA node than the one that moves them; all lines.");
    m.def(
        "with_numa_balancing",
        [](std::shared_ptr<const Program> program, std::vector<std::uint8_t> node_of_thread,
           std::vector<double> line_s) {
            return with_numa_balancing(
                std::move(program),
                {.node_of_thread = std::move(node_of_thread), .line_s = std::move(line_s)});
        },
        "program"_a, "node_of_thread"_a, "line_s"_a,
        "The program under NUMA balancing. line_s[phase]: seconds in which it moves one line.");
    m.def(
        "with_memory_tiers",
        [](std::shared_ptr<const Program> program, std::shared_ptr<const Placement> placement,
           Placing numa, std::uint32_t ranks, std::vector<double> line_s) {
            return with_memory_tiers(
                std::move(program), std::move(placement),
                {.numa = std::move(numa), .ranks = ranks, .line_s = std::move(line_s)});
        },
        "program"_a, "placement"_a, "numa"_a, "ranks"_a, "line_s"_a,
        "The program where Linux promotes and demotes pages between tiers of memory. "
        "line_s[phase]: "
        "seconds in which it moves one line.");
    m.def(
        "with_moving_threads",
        [](std::shared_ptr<const Program> program, std::vector<std::uint8_t> node_of_thread,
           std::vector<double> line_s, double stay_s, std::uint64_t seed) {
            return with_moving_threads(std::move(program),
                                       {.node_of_thread = std::move(node_of_thread),
                                        .line_s = std::move(line_s),
                                        .stay_s = stay_s,
                                        .seed = seed});
        },
        "program"_a, "node_of_thread"_a, "line_s"_a, "stay_s"_a, "seed"_a,
        "The program whose threads stay on a NUMA node for stay_s seconds on average.");
    m.def("dram_sum_names", [] { return dram_sum_names; });
    m.def(
        "lines_by_phase",
        [](const Program& program, std::uint32_t ranks) {
            nb::gil_scoped_release release;
            return lines_by_phase(program, ranks);
        },
        "program"_a, "ranks"_a,
        "[phase] lines that so many copies move in a replay, without those that the kernel "
        "clears.");
    m.def(
        "most_lines_by_phase",
        [](const Program& program) {
            nb::gil_scoped_release release;
            return most_lines_by_phase(program);
        },
        "program"_a,
        "[phase] lines that one copy moves at most, with those that the kernel clears.");
    m.def(
        "moved_by_phase",
        [](const Program& program) {
            nb::gil_scoped_release release;
            std::vector<std::array<std::uint64_t, 6>> phases;
            for (const Moved& of : moved_by_phase(program))
                phases.push_back(
                    {of.read, of.written, of.streamed, of.cleared, of.zero_faults, of.file_faults});
            return phases;
        },
        "program"_a,
        "[phase] lines that one copy's L1s fetch, write back and store past the caches, and that "
        "the "
        "kernel clears for it; its faults of pages of zeros, and of pages of files, that it "
        "reads.");
    m.def(
        "excerpted",
        [](const Program& program, std::uint32_t ranks,
           const std::vector<std::array<std::uint64_t, 5>>& excerpts,
           std::vector<std::uint32_t> groups) {
            nb::gil_scoped_release release;
            return excerpted(program, ranks, excerpts_of(excerpts), std::move(groups));
        },
        "program"_a, "ranks"_a, "excerpts"_a, "groups"_a = std::vector<std::uint32_t>(),
        "The program without the lines that its replay with these excerpts skips. Threads of "
        "different `groups` have no cache in common.");
    m.def(
        "compulsory_by_phase",
        [](const Program& program, std::uint32_t ranks,
           const std::vector<std::array<std::uint64_t, 5>>& excerpts) {
            std::vector<Compulsory> phases;
            {
                nb::gil_scoped_release release;
                phases = compulsory_by_phase(program, ranks, excerpts_of(excerpts));
            }
            std::vector<std::array<std::uint64_t, 3>> stretches;
            for (std::uint64_t phase = 0; phase < phases.size(); ++phase) {
                const auto& reads = phases[phase].stretch_reads;
                for (std::uint64_t number = 0; number < reads.size(); ++number)
                    if (reads[number] != 0) stretches.push_back({phase, number, reads[number]});
            }
            const auto objects = [&](const auto& values_of) {
                return table_of(phases, program.objects(), values_of);
            };
            return std::tuple(
                table_of(phases, 2,
                         [](const Compulsory& c) { return std::array{c.reads, c.writes}; }),
                table_of(stretches, 3, [](const auto& row) { return row; }),
                objects([](const Compulsory& c) { return c.object_reads; }),
                objects([](const Compulsory& c) { return c.object_reads_in_stretches; }));
        },
        "program"_a, "ranks"_a, "excerpts"_a = std::vector<std::array<std::uint64_t, 5>>(),
        "What memory does for all copies below infinite caches. uint64[phase, 2]: lines that it "
        "reads and writes; uint64[stretch, 3]: a phase, the number of a stretch, and the reads "
        "that a replay with these excerpts counts there; uint64[phase, object]: all reads; the "
        "same: those that it counts.");
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
           std::uint64_t sets, bool translating, bool caching, std::uint64_t refilled_above,
           const Placing& numa, const CancelFlag& cancel) {
            const NodeReplayOptions options{.ranks = ranks,
                                            .excerpts = excerpts_of(excerpts),
                                            .sets = sets,
                                            .translating = translating,
                                            .caching = caching,
                                            .refilled_above = refilled_above,
                                            .numa = numa};
            nb::gil_scoped_release release;
            return replay_node(program, placement, model, options, cancel.under_way());
        },
        "program"_a, "placement"_a, "model"_a, nb::kw_only(), "ranks"_a, "excerpts"_a,
        "sets"_a = all_line_sets, "translating"_a = true, "caching"_a = true,
        "refilled_above"_a = ~std::uint64_t{0}, "numa"_a = nb::none(), "cancel"_a,
        "excerpts: [period, stretch, warm_up, begin, recalled] in lines of all ranks, one a phase; "
        "none: everything. Stretches that recall more than `refilled_above` lines refill the "
        "caches. sets: bit i has the lines at place i of their pages; the others go through no "
        "caches. numa: where threads run and pages go on a node of several NUMA nodes.");
    m.def(
        "replay_twins",
        [](const Program& program, const Placement& placement,
           const std::vector<const NodeModel*>& models, std::uint32_t ranks,
           const std::vector<std::array<std::uint64_t, 5>>& excerpts, std::uint64_t sets,
           std::uint64_t refilled_above, const Placing& numa, const CancelFlag& cancel) {
            const NodeReplayOptions options{.ranks = ranks,
                                            .excerpts = excerpts_of(excerpts),
                                            .sets = sets,
                                            .all_lines = true,
                                            .refilled_above = refilled_above,
                                            .numa = numa};
            nb::gil_scoped_release release;
            return replay_twins(program, placement, models, options, cancel.under_way());
        },
        "program"_a, "placement"_a, "models"_a, nb::kw_only(), "ranks"_a, "excerpts"_a,
        "sets"_a = all_line_sets, "refilled_above"_a = ~std::uint64_t{0}, "numa"_a = nb::none(),
        "cancel"_a,
        "As replay_node, of machines that differ in their caches and DRAMs alone, in one pass; one "
        "after the other, and after a model with an l3_beside the machine with that L3. TLBs look "
        "up all lines, also those outside of `sets`.");
}

}  // namespace pagelens
