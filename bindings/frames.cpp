#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/register.hpp"
#include "core/frames/buddy.hpp"
#include "core/frames/history.hpp"
#include "core/frames/placement.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

std::vector<std::uint32_t> numbers(const std::vector<Frame>& frames) {
    std::vector<std::uint32_t> raw(frames.size());
    std::transform(frames.begin(), frames.end(), raw.begin(), [](Frame f) { return f.raw(); });
    return raw;
}

}  // namespace

void register_frames(nb::module_& m) {
    nb::class_<Buddy>(m, "Buddy", "A buddy allocator; copying it is a snapshot.")
        .def(nb::init<std::uint32_t, std::uint32_t>(), "frames"_a, "grain"_a)
        .def(nb::init<const Buddy&>(), "other"_a)
        .def(
            "alloc",
            [](Buddy& buddy, unsigned order) -> std::optional<std::uint32_t> {
                const auto frame = buddy.alloc(order);
                return frame ? std::optional(frame->raw()) : std::nullopt;
            },
            "order"_a)
        .def(
            "free", [](Buddy& b, std::uint32_t f, unsigned order) { b.free(Frame(f), order); },
            "frame"_a, "order"_a)
        .def("sort", &Buddy::sort)
        .def(
            "reserve",
            [](Buddy& b, std::uint32_t begin, std::uint32_t end) {
                b.reserve(Frame(begin), Frame(end));
            },
            "begin"_a, "end"_a)
        .def(
            "free_list", [](const Buddy& b, unsigned order) { return numbers(b.free_list(order)); },
            "order"_a)
        .def_prop_ro("frames", &Buddy::frames)
        .def_prop_ro("grain", &Buddy::grain)
        .def_prop_ro("free_frames", &Buddy::free_frames);

    nb::class_<JobMix>(m, "JobMix", "How the jobs of a fleet are; sizes in frames of 4 KiB.")
        .def(
            "__init__",
            [](JobMix* mix, double smallest, double largest, std::uint32_t processes,
               std::uint32_t turn, double interval, double cache, double huge, double kept_free) {
                new (mix)
                    JobMix{smallest, largest, processes, turn, interval, cache, huge, kept_free};
            },
            nb::kw_only(), "smallest_job_frames"_a, "largest_job_frames"_a, "processes"_a,
            "longest_turn"_a, "cache_interval"_a, "cache_share"_a, "huge_share"_a,
            "kept_free_share"_a);

    nb::class_<Random>(m, "Random", "Philox4x32-10 draws, keyed by (seed, node, run, stream).")
        .def(
            "__init__",
            [](Random* random, std::uint64_t seed, std::uint32_t node, std::uint32_t run,
               Stream stream) { new (random) Random(seed, node, run, stream); },
            "seed"_a, "node"_a, "run"_a, "stream"_a)
        .def("below", &Random::below, "n"_a)
        .def("uniform", &Random::uniform)
        .def("log_uniform", &Random::log_uniform, "low"_a, "high"_a);
    nb::enum_<Stream>(m, "Stream")
        .value("history", Stream::history)
        .value("stragglers", Stream::stragglers)
        .value("random_frames", Stream::random_frames)
        .value("sampling", Stream::sampling)
        .value("ideal_twin", Stream::ideal_twin);

    nb::class_<NodeState>(m, "NodeState",
                          "What a node's history left behind: free lists, page cache.")
        .def(nb::init<std::uint32_t, std::uint32_t>(), "frames"_a, "grain"_a)
        .def(nb::init<const NodeState&>(), "other"_a)
        .def("age", &NodeState::age, "jobs"_a, "mix"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("run_job", &NodeState::run_job, "job_frames"_a, "mix"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("drop_caches", &NodeState::drop_caches, "stragglers"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("zonesort", &NodeState::zonesort, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("buddy", &NodeState::buddy, nb::rv_policy::reference_internal)
        .def_prop_ro("page_cache_frames", &NodeState::page_cache_frames);

    nb::class_<Placement>(m, "Placement", "A recipe for a job's frames; shared by threads.")
        .def_prop_ro("frames", &Placement::frames)
        .def_prop_ro("page_order", &Placement::page_order);
    m.def("place_by_buddy", &place_by_buddy, "state"_a, "page_order"_a);
    m.def("place_in_gigabytes", &place_in_gigabytes, "state"_a);
    m.def("place_contiguously", &place_contiguously, "frames"_a);
    m.def("place_at_random", &place_at_random, "frames"_a, "seed"_a, "node"_a);
    m.def("place_by_colour", &place_by_colour, "state"_a, "slots"_a);
}

}  // namespace pagelens
