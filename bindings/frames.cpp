#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/frames/node_state.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/frames/placement.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

Output<std::uint32_t> frame_array(const std::vector<Frame>& frames) {
    auto data = std::make_unique<std::uint32_t[]>(frames.size());
    std::transform(frames.begin(), frames.end(), data.get(), [](Frame f) { return f.raw(); });
    return owned<Output<std::uint32_t>>(std::move(data), {frames.size()});
}

}  // namespace

void register_frames(nb::module_& m) {
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
        .def("small", &Random::small, "n"_a)
        .def("uniform", &Random::uniform)
        .def("log_uniform", &Random::log_uniform, "low"_a, "high"_a);
    nb::enum_<Stream>(m, "Stream")
        .value("history", Stream::history)
        .value("random_frames", Stream::random_frames)
        .value("sampling", Stream::sampling)
        .value("ideal_twin", Stream::ideal_twin)
        .value("frequency", Stream::frequency);

    nb::enum_<NumaMode>(m, "NumaMode", "The memory policies of Linux.")
        .value("local", NumaMode::local)
        .value("bind", NumaMode::bind)
        .value("preferred", NumaMode::preferred)
        .value("preferred_many", NumaMode::preferred_many)
        .value("interleave", NumaMode::interleave)
        .value("weighted_interleave", NumaMode::weighted_interleave);
    nb::class_<NumaPolicy>(m, "NumaPolicy", "On which NUMA nodes pages get their frames.")
        .def(
            "__init__",
            [](NumaPolicy* policy, NumaMode mode, std::uint64_t nodes,
               std::vector<std::uint8_t> weights) {
                new (policy) NumaPolicy{mode, nodes, std::move(weights)};
            },
            "mode"_a, "nodes"_a = ~0ull, "weights"_a = std::vector<std::uint8_t>())
        .def(
            "request",
            [](const NumaPolicy& policy, unsigned cpu_node, unsigned order, std::uint64_t index,
               unsigned node_count) {
                const Request of = request_by(policy, 0, cpu_node, order, index, node_count);
                return std::tuple(of.home, of.numas, of.sparing);
            },
            "cpu_node"_a, "order"_a, "index"_a, "node_count"_a,
            "The node where a page's search begins, the mask of nodes that may serve it, and "
            "whether it leaves all zones above their low watermarks.");
    nb::class_<NumaPlacing>(m, "NumaPlacing", "Where a job's threads run, and its pages go.")
        .def(
            "__init__",
            [](NumaPlacing* placing, std::vector<std::uint32_t> cpus,
               std::vector<std::uint8_t> node_of_cpu, std::vector<std::uint32_t> end_of_node,
               std::vector<NumaPolicy> policies, std::vector<std::uint8_t> of_page,
               std::vector<std::uint16_t> touched_by, std::uint64_t slow_nodes) {
                new (placing)
                    NumaPlacing{std::move(cpus),     std::move(node_of_cpu), std::move(end_of_node),
                                std::move(policies), std::move(of_page),     std::move(touched_by),
                                slow_nodes};
            },
            nb::kw_only(), "cpus"_a, "node_of_cpu"_a, "end_of_node"_a, "policies"_a,
            "of_page"_a = std::vector<std::uint8_t>(),
            "touched_by"_a = std::vector<std::uint16_t>(), "slow_nodes"_a = 0);

    nb::class_<NodeState>(m, "NodeState",
                          "A node between boot and the job; copying it is a snapshot.")
        .def(nb::init<Layout, std::uint32_t>(), "layout"_a, "grain"_a)
        .def(nb::init<const NodeState&>(), "other"_a)
        .def_static(
            "of", [](const Memory& memory) { return NodeState(memory); }, "memory"_a)
        .def("age", &NodeState::age, "jobs"_a, "mix"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("run_job", &NodeState::run_job, "job_frames"_a, "mix"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("buffered_io", &NodeState::buffered_io, "frames"_a, "cpu"_a = 0,
             nb::call_guard<nb::gil_scoped_release>())
        .def("drop_caches", &NodeState::drop_caches, "stragglers"_a, "pinned"_a, "random"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("compact", &NodeState::compact, nb::call_guard<nb::gil_scoped_release>())
        .def("sort_for_cache", &NodeState::sort_for_cache, "slots"_a, "evacuating"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("sort_by_buckets", &NodeState::sort_by_buckets, "slots"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("sort_by_address", &NodeState::sort_by_address,
             nb::call_guard<nb::gil_scoped_release>())
        .def("shuffle", &NodeState::shuffle, "random"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("fill_huge_pool", &NodeState::fill_huge_pool, "numa"_a, "pages"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def(
            "take_offline",
            [](NodeState& node, std::uint32_t begin, std::uint32_t end) {
                return node.take_offline(Frame(begin), Frame(end));
            },
            "begin"_a, "end"_a)
        .def(
            "bring_online",
            [](NodeState& node, std::uint32_t begin, std::uint32_t end) {
                node.bring_online(Frame(begin), Frame(end));
            },
            "begin"_a, "end"_a)
        .def_prop_ro("memory", nb::overload_cast<>(&NodeState::memory),
                     nb::rv_policy::reference_internal)
        .def_prop_ro("page_cache_frames", &NodeState::page_cache_frames);

    nb::class_<Placement>(m, "Placement", "A recipe for a job's frames; shared by threads.")
        .def_prop_ro("frames", &Placement::frames)
        .def_prop_ro("page_order", &Placement::page_order)
        .def(
            "first_frames",
            [](const Placement& placement, std::uint32_t ranks, std::uint32_t pages) {
                return frame_array(first_frames(placement, ranks, pages));
            },
            "ranks"_a, "pages"_a,
            "The frames of a job whose ranks touch `pages` small pages each, in turn.");
    m.def("place_by_kernel", &place_by_kernel, "state"_a, "page_order"_a);
    m.def("place_adaptively", &place_adaptively, "state"_a, "shuffle_above"_a, "seed"_a, "node"_a);
    m.def("place_by_numa_node", &place_by_numa_node, "state"_a);
    m.def(
        "gigabytes_at_boot",
        [](const Memory& memory) { return frame_array(gigabytes_at_boot(memory)); }, "memory"_a,
        "The first frames of the 1 GiB pages that can be set aside at boot, uint32[page].");
    m.def("place_in_gigabytes", &place_in_gigabytes, "state"_a);
    m.def("place_contiguously", &place_contiguously, "frames"_a);
    m.def("place_at_random", &place_at_random, "frames"_a, "seed"_a, "node"_a);
    m.def(
        "place_as_given",
        [](nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> of_pages,
           std::uint32_t frames, unsigned page_order) {
            const std::uint32_t* const begin = of_pages.data();
            std::vector<Frame> given;
            given.reserve(of_pages.size());
            std::transform(begin, begin + of_pages.size(), std::back_inserter(given),
                           [](std::uint32_t frame) { return Frame(frame); });
            return place_as_given(std::move(given), frames, page_order);
        },
        "of_pages"_a, "frames"_a, "page_order"_a,
        "The frames that one rank's pages were seen to have, uint32[page].");
    m.def("place_by_colour", &place_by_colour, "state"_a, "slots"_a, "page_order"_a);
}

}  // namespace pagelens
