// nanobind of core/accesses: programs, traces and their compilation.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/cancel_flag.hpp"
#include "bindings/register.hpp"
#include "bindings/signals.hpp"
#include "core/accesses/compile.hpp"
#include "core/accesses/filter.hpp"
#include "core/accesses/job.hpp"
#include "core/accesses/rank_paths.hpp"
#include "core/accesses/survey.hpp"
#include "core/accesses/survey_and_compile.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_recorder.hpp"
#include "core/replay/replay.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

namespace {

using SetsAndWays = std::pair<std::uint32_t, std::uint32_t>;  // sets, ways

SetsAndWays pair_of(CacheShape shape) { return {shape.sets, shape.ways}; }

const char* name_of(ObjectOrigin::Kind kind) {
    switch (kind) {
        case ObjectOrigin::Kind::kernel:
            return "kernel";
        case ObjectOrigin::Kind::heap:
            return "heap";
        case ObjectOrigin::Kind::stack:
            return "stack";
        case ObjectOrigin::Kind::mapping:
            return "mapping";
        case ObjectOrigin::Kind::module:
            return "module";
        case ObjectOrigin::Kind::variable:
            return "variable";
        case ObjectOrigin::Kind::call_site:
            break;
    }
    return "call_site";
}

template <class T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> view(std::span<const T> values, nb::handle owner) {
    return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, owner);
}

nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<2>> view_ranges(
    const std::vector<PageRange>& ranges, nb::handle owner) {
    static_assert(sizeof(PageRange) == 2 * sizeof(std::uint64_t));
    return {ranges.data(), {ranges.size(), 2}, owner};
}

void register_program(nb::module_& m) {
    nb::class_<Program>(m, "Program",
                        "Ops of a program, to be replayed (core/accesses/program.hpp).")
        .def_prop_ro("objects", &Program::objects)
        .def_prop_ro("phases", &Program::phases)
        .def_prop_ro("threads", &Program::threads)
        .def_prop_ro(
            "pages",
            [](nb::handle_t<Program> self) {
                const auto pages = nb::cast<const Program&>(self).pages();
                static_assert(sizeof(VirtualPage) == sizeof(std::uint64_t));
                return view(
                    std::span(reinterpret_cast<const std::uint64_t*>(pages.data()), pages.size()),
                    self);
            },
            "Virtual page number of each page, uint64, ascending.")
        .def_prop_ro(
            "instructions",
            [](nb::handle_t<Program> self) {
                return view(nb::cast<const Program&>(self).instructions(), self);
            },
            "Instructions executed, uint64, [phase * threads + thread].")
        .def_prop_ro(
            "taken_lines",
            [](const Program& program) {
                using Table = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<2>>;
                std::vector<std::uint64_t> rows;
                for (const TakenLines& one : program.taken_lines())
                    rows.insert(rows.end(),
                                {one.phase, one.object, one.from, one.to, one.line, one.count});
                const std::size_t count = rows.size() / 6;
                return moved_as<Table, const std::uint64_t>(std::move(rows), {count, 6});
            },
            nb::rv_policy::automatic,
            "uint64 [row, 6]: phase, object, the thread that has a line, the one that takes it, "
            "the "
            "line (2^64 - 1: all that are taken rarely), how often; made anew.");
    nb::class_<CompiledTrace, Program>(m, "CompiledTrace")
        .def_prop_ro("ops", &CompiledTrace::ops, "Number of ops; 16 bytes each in memory.")
        .def_prop_ro("lines", &CompiledTrace::lines, "Lines that all ops of lines name.")
        .def_prop_ro("warnings", &CompiledTrace::warnings)
        .def_prop_ro(
            "sampled",
            [](nb::handle_t<CompiledTrace> self) {
                const SampleCounts& counts = nb::cast<const CompiledTrace&>(self).sampled();
                return std::tuple(
                    view(std::span(counts.seen), self), view(std::span(counts.kept), self),
                    view(std::span(counts.touched), self), view(std::span(counts.users), self));
            },
            "Where lines are sampled: uint64 [phase * objects + object] lines past the tracer's "
            "filter, and those kept; uint64 [phase] those that touched; uint8 [object * threads + "
            "thread] whether it moved any. Else empty.")
        .def_prop_ro("interval_phases", &CompiledTrace::interval_phases,
                     "The marked phase of each interval; empty without intervals.");
}

void register_job(nb::module_& m) {
    nb::class_<Process>(m, "Process",
                        "A process of a job, and what its numbers are there "
                        "(core/accesses/job.hpp).")
        .def(
            "__init__",
            [](Process* process, std::shared_ptr<const Program> program,
               std::vector<std::uint16_t> objects, std::vector<std::uint32_t> phases,
               std::vector<std::uint32_t> files, std::vector<std::uint32_t> places,
               std::vector<std::uint32_t> first_turns, std::uint32_t first_round,
               std::vector<std::uint16_t> threads) {
                new (process) Process{std::move(program),
                                      std::move(objects),
                                      std::move(phases),
                                      std::move(files),
                                      {std::move(places), std::move(first_turns)},
                                      first_round,
                                      std::move(threads)};
            },
            "program"_a, "objects"_a, "phases"_a, "files"_a, "places"_a, "first_turns"_a,
            "first_round"_a, "threads"_a,
            "places, first_turns: as KnownPlaces has them (core/accesses/meeting_places.hpp).");
    m.def(
        "job_of",
        [](std::vector<Process> processes, unsigned objects, unsigned phases,
           std::uint64_t meeting) {
            const nb::gil_scoped_release released;
            return job_of(std::move(processes), objects, phases, meeting);
        },
        "processes"_a, "objects"_a, "phases"_a, "meeting"_a,
        "One program whose threads are those of all processes, in their order. They meet where so "
        "many processes do; 0: nowhere. Raises ValueError.");
}

void register_rank_paths(nb::module_& m) {
    m.attr("LEFT_OUT") = RankPaths::left_out;
    nb::class_<RankSegments>(m, "RankSegments",
                             "What a rank does between meetings (core/accesses/rank_paths.hpp).")
        .def(
            "__init__",
            [](RankSegments* segments, const Input<std::uint32_t>& rounds,
               const Input<std::uint64_t>& meetings, const Input<double>& instructions,
               const Input<double>& lines, std::vector<std::uint32_t> places,
               std::vector<std::uint32_t> first_turns, std::uint32_t known_from,
               std::uint32_t known_to) {
                const auto list = [](const auto& of) {
                    const auto span = span_of(of);
                    return std::vector(span.begin(), span.end());
                };
                new (segments) RankSegments{list(rounds),
                                            list(meetings),
                                            list(instructions),
                                            list(lines),
                                            {std::move(places), std::move(first_turns)},
                                            known_from,
                                            known_to};
            },
            "rounds"_a, "meetings"_a, "instructions"_a, "lines"_a, "places"_a, "first_turns"_a,
            "known_from"_a, "known_to"_a);
    nb::class_<RankPaths>(m, "RankPaths", "Paths through the segments of all ranks.")
        .def(
            "__init__",
            [](RankPaths* paths, const std::vector<RankSegments>& ranks,
               const Input<std::uint32_t>& phases) {
                new (paths) RankPaths(ranks, span_of(phases));
            },
            "ranks"_a, "phases"_a,
            "phases: of each round; LEFT_OUT: it is not followed. Raises ValueError.")
        .def("longest", &RankPaths::longest, "phase"_a, "tolerance"_a,
             nb::call_guard<nb::gil_scoped_release>(), "Instructions and lines of each path.")
        .def(
            "waits", &RankPaths::waits, "phase"_a, "a"_a, "b"_a,
            nb::call_guard<nb::gil_scoped_release>(),
            "Return how long each rank waits for each other one, at a for an instruction and b for "
            "a line.");
}

void register_padding(nb::module_& m) {
    nb::class_<Padding>(m, "Padding",
                        "Memory put between blocks of a program (core/accesses/padding.hpp).")
        .def(
            "__init__",
            [](Padding* padding, const std::vector<std::uint64_t>& before, std::uint64_t pages) {
                new (padding) Padding({before.begin(), before.end()}, pages);
            },
            "before"_a, "pages"_a,
            "So many pages more before each of these virtual pages. Raises ValueError unless they "
            "ascend.")
        .def(
            "__call__",
            [](const Padding& padding, std::uint64_t page) {
                return padding(VirtualPage(page)).raw();
            },
            "page"_a, "Where a virtual page lies then.");
}

void register_definitions(nb::module_& m) {
    nb::class_<ModuleDefinition>(m, "Module")
        .def_ro("path", &ModuleDefinition::path)
        .def_prop_ro("build_id",
                     [](const ModuleDefinition& module) {
                         return nb::bytes(module.build_id.data(), module.build_id.size());
                     })
        .def_ro("base", &ModuleDefinition::base,
                "Load bias: address in memory - address in the file.")
        .def_ro("start", &ModuleDefinition::start)
        .def_ro("size", &ModuleDefinition::size);
    nb::class_<CallSiteDefinition>(m, "CallSite")
        .def_ro("id", &CallSiteDefinition::id)
        .def_ro("return_addresses", &CallSiteDefinition::return_addresses, "Innermost first.")
        .def_ro("name", &CallSiteDefinition::name, "Of imported traces; otherwise empty.");
    nb::class_<CodeBlockDefinition>(m, "CodeBlock")
        .def_ro("id", &CodeBlockDefinition::id)
        .def_ro("address", &CodeBlockDefinition::address)
        .def_prop_ro("bytes", [](const CodeBlockDefinition& block) {
            return nb::bytes(block.bytes.data(), block.bytes.size());
        });
    nb::class_<WriterDefinition>(m, "Writer", "An instruction that writes pages first.")
        .def_ro("id", &WriterDefinition::id)
        .def_ro("block", &WriterDefinition::block)
        .def_ro("instruction", &WriterDefinition::instruction)
        .def_ro("return_addresses", &WriterDefinition::return_addresses, "Innermost first.");
    nb::class_<InstructionSample>(m, "InstructionSample")
        .def_ro("thread", &InstructionSample::thread)
        .def_ro("first_instruction", &InstructionSample::first_instruction)
        .def_ro("phase", &InstructionSample::phase)
        .def_prop_ro(
            "blocks",
            [](nb::handle_t<InstructionSample> self) {
                return view(std::span(nb::cast<const InstructionSample&>(self).blocks), self);
            },
            "Ids of blocks, uint64; 0: not known.")
        .def_prop_ro(
            "accesses",
            [](const InstructionSample& sample) {
                const auto column = [&]<class T>(auto field, T) {
                    std::vector<T> values;
                    values.reserve(sample.accesses.size());
                    for (const SampledAccess& access : sample.accesses)
                        values.push_back(static_cast<T>(access.*field));
                    return moved(std::move(values));
                };
                return std::tuple(column(&SampledAccess::block, std::uint64_t{}),
                                  column(&SampledAccess::instruction, std::uint64_t{}),
                                  column(&SampledAccess::store, std::uint8_t{}),
                                  column(&SampledAccess::line, std::uint64_t{}));
            },
            nb::rv_policy::automatic,
            "Those that the first filter passed on: uint64 index in `blocks`; uint64 index of the "
            "instruction in that block; uint8 whether it stores; uint64 line.");
    nb::class_<TraceSummary>(m, "TraceSummary")
        .def_ro("instructions", &TraceSummary::instructions)
        .def_ro("accesses", &TraceSummary::accesses)
        .def_ro("total_instructions", &TraceSummary::total_instructions)
        .def_ro("exit_status", &TraceSummary::exit_status);
    nb::enum_<EndKind>(m, "EndKind", "What ended a recording (core/accesses/trace_format.hpp).")
        .value("program", EndKind::program)
        .value("budget", EndKind::budget)
        .value("file", EndKind::file)
        .value("signal", EndKind::signal)
        .value("memory", EndKind::memory);
    nb::class_<TraceEnd>(m, "TraceEnd")
        .def(nb::init<EndKind, std::uint64_t, std::uint64_t>(), "kind"_a, "detail"_a = 0,
             "time"_a = 0)
        .def_ro("kind", &TraceEnd::kind)
        .def_ro("detail", &TraceEnd::detail,
                "budget: accesses; file: errno; signal: its number; otherwise 0.")
        .def_ro("time", &TraceEnd::time, "Nanoseconds since 1970; 0: unknown.");
    nb::class_<TraceFault>(m, "TraceFault")
        .def_ro("position", &TraceFault::position, "Byte of the file.")
        .def_ro("what", &TraceFault::what);
}

void register_survey(nb::module_& m) {
    m.attr("large_block_bytes") = large_block_bytes;
    nb::class_<SurveyedObject>(m, "SurveyedObject")
        .def_prop_ro(
            "kind", [](const SurveyedObject& o) { return name_of(o.origin.kind); },
            "kernel, heap, stack, mapping, module, variable or call_site")
        .def_prop_ro(
            "id", [](const SurveyedObject& o) { return o.origin.id; },
            "module, variable: its index in Trace.modules, in set_variables; call_site: its id.")
        .def_ro("births", &SurveyedObject::births)
        .def_ro("peak_bytes", &SurveyedObject::peak_bytes)
        .def_ro("lines_fetched", &SurveyedObject::lines_fetched)
        .def_ro("lines_stored", &SurveyedObject::lines_stored);
    nb::class_<Survey>(m, "Survey")
        .def_ro("objects", &Survey::objects)
        .def_prop_ro(
            "phases",
            [](const Survey& survey) {
                std::vector<nb::bytes> names;
                for (const std::string& name : survey.phases)
                    names.emplace_back(name.data(), name.size());
                return names;
            },
            "Names of regions: bytes, as the program has them.")
        .def_prop_ro(
            "phase_order",
            [](nb::handle_t<Survey> self) {
                return view(std::span(nb::cast<const Survey&>(self).phase_order), self);
            },
            "Phases as they begin in the run, uint32.")
        .def_prop_ro(
            "phase_instructions",
            [](nb::handle_t<Survey> self) {
                return view(std::span(nb::cast<const Survey&>(self).phase_instructions), self);
            },
            "Instructions of all threads, without those of waiting for other processes, uint64 "
            "[phase].")
        .def_prop_ro(
            "phase_lines",
            [](nb::handle_t<Survey> self) {
                return view(std::span(nb::cast<const Survey&>(self).phase_lines), self);
            },
            "Lines that passed the tracer's filter, uint64 [phase].")
        .def_prop_ro(
            "rounds",
            [](nb::handle_t<Survey> self) {
                const Rounds& rounds = nb::cast<const Survey&>(self).rounds;
                return std::tuple(view(std::span(rounds.phases), self),
                                  view(std::span(rounds.meeting), self),
                                  view(std::span(rounds.instructions), self),
                                  view(std::span(rounds.lines), self));
            },
            "Parts of the run: uint32 the phase of each; uint64 how many processes meet at its "
            "end, or a packed meeting of some; uint64 its instructions; uint64 its lines.")
        .def_prop_ro(
            "thread_loads",
            [](nb::handle_t<Survey> self) {
                const ThreadLoads& loads = nb::cast<const Survey&>(self).thread_loads;
                return std::tuple(
                    view(std::span(loads.phases), self), view(std::span(loads.clock), self),
                    view(std::span(loads.executed), self), view(std::span(loads.lines), self));
            },
            "Parts of the run in which equally many threads work: uint32 the phase of each; uint64 "
            "how many instructions the clock counts in it; and flat, uint64 [part, thread], what "
            "each thread executes and its lines. They are empty if there is one thread.")
        .def_ro("instructions", &Survey::instructions, "Of each thread.")
        .def_ro("peak_pages", &Survey::peak_pages)
        .def_ro("file_pages", &Survey::file_pages)
        .def_prop_ro(
            "cached_pages",
            [](nb::handle_t<Survey> self) {
                return view(std::span(nb::cast<const Survey&>(self).cached_pages), self);
            },
            "Pages of the page cache by their indices in programs, uint64: 2^36 times the number "
            "of the file, and the page in it.")
        .def_ro("lines_fetched", &Survey::lines_fetched)
        .def_ro("lines_of_zero_page", &Survey::lines_of_zero_page)
        .def_ro("lines_stored", &Survey::lines_stored)
        .def_ro("line_events", &Survey::line_events)
        .def_ro("warnings", &Survey::warnings)
        .def_prop_ro(
            "first_writes",
            [](nb::handle_t<Survey> self) {
                return view_ranges(nb::cast<const Survey&>(self).first_writes, self);
            },
            "Pages in the order of their first write: uint64 [:, 2], first page and count.")
        .def_prop_ro(
            "first_writers",
            [](nb::handle_t<Survey> self) {
                const auto& found = nb::cast<const Survey&>(self).first_writers;
                static_assert(sizeof(FirstWriter) == 3 * sizeof(std::uint64_t));
                return nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<2>>(
                    found.data(), {found.size(), 3}, self);
            },
            "What writes pages first, as far as it is known: uint64 [:, 3], object, id of the "
            "writer, pages.")
        .def_prop_ro(
            "large_blocks",
            [](nb::handle_t<Survey> self) {
                return view_ranges(nb::cast<const Survey&>(self).large_blocks, self);
            },
            "Blocks and variables of 1 MiB and more by address: uint64 [:, 2], first page and "
            "count.")
        .def_prop_ro(
            "live_bytes",
            [](const Survey& survey) {
                using Table = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<2>>;
                return moved_as<Table, const std::uint64_t>(
                    survey.live.bytes(), {survey.live.moments(), survey.objects.size()});
            },
            nb::rv_policy::automatic,
            "uint64 [moment, object]: the most bytes live at a time within a moment; made anew.");
}

void register_options(nb::module_& m) {
    nb::class_<CompileOptions>(m, "CompileOptions",
                               "What to compile a trace for (core/accesses/compile.hpp).")
        .def(
            "__init__",
            [](CompileOptions* options,
               const std::vector<std::tuple<std::uint32_t, std::uint32_t, unsigned>>&
                   private_caches,
               unsigned bits, bool in_order, const Padding& padding,
               std::uint64_t interval_instructions, LineSets kept_sets, std::uint32_t touching) {
                new (options) CompileOptions{{},
                                             bits,
                                             in_order ? LineOrder::all : LineOrder::by_set,
                                             padding,
                                             interval_instructions,
                                             {kept_sets, touching}};
                for (const auto& [sets, ways, threads] : private_caches)
                    options->private_caches.push_back({{sets, ways}, threads});
            },
            "private_caches"_a, "page_bits"_a, "in_order"_a, "padding"_a,
            "interval_instructions"_a = 0, "kept_sets"_a = all_line_sets, "touching"_a = 0,
            "Caches (sets, ways, threads that share it) from the L1 on; in_order: lines keep their "
            "order, not only those of a set; interval_instructions: of all threads, each so many "
            "are a phase (0: the marked ones are); kept_sets, touching: a sample of the lines, of "
            "a program in intervals (LineSample).");
}

void register_recorder(nb::module_& m) {
    using Released = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<TraceRecorder>(
        m, "TraceRecorder",
        "Writes a trace (core/accesses/trace_recorder.hpp). Raises ValueError "
        "for what cannot be recorded, TraceError where nothing can be written.")
        .def(
            "__init__",
            [](TraceRecorder* recorder, const std::filesystem::path& path, std::string producer,
               std::string program, std::vector<std::string> arguments, bool any_tlb,
               bool pages_exist) {
                new (recorder)
                    TraceRecorder(path.string(), {std::move(producer), std::move(program),
                                                  std::move(arguments), any_tlb, pages_exist});
            },
            nb::sig("def __init__(self, path: str | os.PathLike[str], producer: str, program: str, "
                    "arguments: Sequence[str], any_tlb: bool, pages_exist: bool) -> None"),
            "path"_a, "producer"_a, "program"_a, "arguments"_a, "any_tlb"_a, "pages_exist"_a)
        .def(
            "access",
            [](TraceRecorder& recorder, std::uint32_t thread, const Input<std::uint64_t>& addresses,
               const Input<std::uint32_t>& sizes, const Input<bool>& stores,
               const Input<std::uint32_t>& instructions) {
                const AccessBatch batch{span_of(addresses), span_of(sizes), span_of(stores),
                                        span_of(instructions)};
                const nb::gil_scoped_release released;
                recorder.access(thread, batch);
            },
            "thread"_a, "addresses"_a, "sizes"_a, "stores"_a, "instructions"_a,
            "Arrays have a value for each access, or one that holds for all.")
        .def("execute", &TraceRecorder::execute, "thread"_a, "instructions"_a, Released())
        .def("allocate", &TraceRecorder::allocate, "thread"_a, "address"_a, "size"_a, "name"_a,
             Released())
        .def("free", &TraceRecorder::free, "thread"_a, "address"_a, Released())
        .def("unmap", &TraceRecorder::unmap, "thread"_a, "address"_a, "size"_a, Released())
        .def("map_file", &TraceRecorder::map_file, "thread"_a, "address"_a, "size"_a, "name"_a,
             "offset"_a, Released())
        .def("phase", &TraceRecorder::phase, "thread"_a, "name"_a, Released())
        .def("sync", &TraceRecorder::sync, "thread"_a, Released())
        .def("wait", &TraceRecorder::wait, "thread"_a, "processes"_a, "before"_a, Released())
        .def("go_on", &TraceRecorder::go_on, "thread"_a, Released())
        .def("meet", &TraceRecorder::meet, "thread"_a, "place"_a, "turn"_a, "comes"_a, "waits"_a,
             "sends"_a, Released())
        .def("warn", &TraceRecorder::warn, "text"_a, Released())
        .def("close", &TraceRecorder::close, Released())
        .def("discard", &TraceRecorder::discard, Released());
}

// Serves long work without the GIL. Ctrl-C, if it reaches the main thread, and the flag may end it.
// `shows`: the flag says how far the walk is.
WalkPoll poll_of(const CancelFlag* cancel, bool shows = false) {
    return [cancel, shows](float share) {
        check_signals();
        if (cancel == nullptr) return;
        if (shows) return cancel->under_way().at(share);
        cancel->under_way().stop_if_cancelled();
    };
}

}  // namespace

void register_accesses(nb::module_& m) {
    nb::exception<TraceError>(m, "TraceError");
    m.def(
        "traced_l1s",
        [] {
            std::vector<SetsAndWays> families;
            for (const CacheShape shape : filter_exact_for) families.push_back(pair_of(shape));
            return families;
        },
        "Families (least sets, least ways) of L1s that new traces are exact for.");
    register_program(m);
    register_job(m);
    register_rank_paths(m);
    register_padding(m);
    register_options(m);
    register_definitions(m);
    register_survey(m);
    register_recorder(m);

    m.def(
        "append_end",
        [](const std::filesystem::path& path, std::uint64_t bytes, TraceEnd end) {
            return append_end(path.string(), bytes, end);
        },
        nb::sig("def append_end(path: str | os.PathLike[str], bytes: int, end: TraceEnd) -> int"),
        "path"_a, "bytes"_a, "end"_a,
        "Cut a trace whose end is missing at this byte, and state what ended it. Returns errno or "
        "0.");

    nb::class_<TraceReader>(m, "Trace", "An open trace file; see docs/trace-format.md.")
        .def(
            "__init__",
            [](TraceReader* reader, const std::filesystem::path& path) {
                new (reader) TraceReader(path.string());
            },
            nb::sig("def __init__(self, path: str | os.PathLike[str]) -> None"), "path"_a,
            nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("producer", [](const TraceReader& t) { return t.header().producer; })
        .def_prop_ro("program", [](const TraceReader& t) { return t.header().program; })
        .def_prop_ro("arguments", [](const TraceReader& t) { return t.header().arguments; })
        .def_prop_ro(
            "bound", [](const TraceReader& t) { return t.header().bound; },
            "Where the process could run (TraceHeader::bound); empty: unknown.")
        .def_prop_ro(
            "rank", [](const TraceReader& t) { return t.header().rank; },
            "The number of the process in its MPI job; empty if it has none.")
        .def_prop_ro(
            "chosen", [](const TraceReader& t) { return t.header().chosen; },
            "The options that chose a part of the run; empty if none did.")
        .def_prop_ro(
            "began", [](const TraceReader& t) { return t.header().began; },
            "When the recording began: nanoseconds since 1970; 0: unknown.")
        .def_prop_ro("end", &TraceReader::end,
                     "What ended the recording; None if the trace does not say.")
        .def_prop_ro(
            "files",
            [](const TraceReader& t) {
                std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> files;
                for (const FileDefinition& file : t.files())
                    files.emplace_back(file.number, file.device, file.inode);
                return files;
            },
            "Number, device and inode of each mapped file.")
        .def_prop_ro(
            "places",
            [](const TraceReader& t) {
                std::vector<std::pair<std::uint64_t, std::string>> places;
                for (const PlaceDefinition& place : t.places())
                    places.emplace_back(place.id, place.name);
                return places;
            },
            "Number and name of each place where some ranks meet.")
        .def_prop_ro(
            "exact_for",
            [](const TraceReader& t) {
                std::vector<SetsAndWays> shapes;
                for (const CacheShape& shape : t.header().exact_for)
                    shapes.push_back(pair_of(shape));
                return shapes;
            },
            "Families (least sets, least ways) of first-level caches that the filter keeps exact.")
        .def_prop_ro("page_filter",
                     [](const TraceReader& t) { return pair_of(t.header().page_filter); })
        .def_prop_ro("summary", &TraceReader::summary)
        .def_prop_ro("modules", &TraceReader::modules)
        .def_prop_ro("call_sites", &TraceReader::call_sites)
        .def_prop_ro(
            "phase_ids",
            [](const TraceReader& t) {
                std::vector<std::uint64_t> ids;
                for (const PhaseDefinition& phase : t.phases()) ids.push_back(phase.id);
                return ids;
            },
            "In the order of Survey.phases, which has what lies outside of all phases before them.")
        .def_prop_ro("writers", &TraceReader::writers)
        .def_prop_ro("code_blocks", &TraceReader::code_blocks)
        .def_prop_ro("samples", &TraceReader::samples)
        .def_prop_ro("warnings", &TraceReader::warnings)
        .def_prop_ro("damage", &TraceReader::damage, "Where a damaged file stops being whole.")
        .def_prop_ro("file_bytes", &TraceReader::file_bytes)
        .def_prop_ro("event_bytes", &TraceReader::event_bytes,
                     "Of all events, uncompressed: about one a line or less.")
        .def_prop_ro("threads", [](const TraceReader& t) { return t.threads().size(); })
        .def(
            "is_exact_for",
            [](const TraceReader& t, SetsAndWays l1) {
                return is_exact_for(t.header(), {l1.first, l1.second});
            },
            "l1"_a)
        .def(
            "set_variables",
            [](TraceReader& t, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
                std::vector<StaticVariable> variables;
                for (const auto& [start, size] : ranges) variables.push_back({start, size});
                t.set_variables(std::move(variables));
            },
            "ranges"_a,
            "Variables (address, bytes) to be objects; before any survey or compilation.")
        .def("group_call_sites", &TraceReader::group_call_sites, "groups"_a,
             "Call sites (id, and that of another) to be one object; before any survey or "
             "compilation.")
        .def(
            "survey",
            [](const TraceReader& t, std::uint64_t moment_instructions, const CancelFlag* cancel) {
                const nb::gil_scoped_release released;
                return survey(t, poll_of(cancel, true), moment_instructions);
            },
            "moment_instructions"_a, "cancel"_a.none() = nb::none(),
            "So many instructions of all threads are a moment of live_bytes; 0: none is kept. "
            "`cancel.share` is how far it is. Raises Cancelled.")
        .def(
            "compile",
            [](const TraceReader& t, const CompileOptions& options, const CancelFlag* cancel) {
                const nb::gil_scoped_release released;
                return compile(t, options, poll_of(cancel));
            },
            "options"_a, "cancel"_a.none() = nb::none(),
            "Raises ValueError if a cache does not fit, Cancelled.")
        .def(
            "survey_and_compile",
            [](const TraceReader& t, std::uint64_t moment_instructions,
               const CompileOptions& options, const CancelFlag* cancel) {
                const nb::gil_scoped_release released;
                auto [survey, program] =
                    survey_and_compile(t, moment_instructions, options, poll_of(cancel, true));
                return std::pair(std::move(survey), std::move(program));
            },
            "moment_instructions"_a, "options"_a, "cancel"_a.none() = nb::none(),
            "Both from one walk through the trace, of which `cancel.share` is done.");
}

}  // namespace pagelens
