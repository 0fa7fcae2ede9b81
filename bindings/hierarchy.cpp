// nanobind of the caches: core/machine/cache_hierarchy.hpp.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/machine/cache_hierarchy.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using Words = nb::ndarray<nb::numpy, std::uint64_t>;

// The core checks each of them.
std::span<const AccessKind> kinds_of(const Input<std::uint8_t>& kinds) {
    static_assert(sizeof(AccessKind) == 1);
    return {reinterpret_cast<const AccessKind*>(kinds.data()), kinds.size()};
}

Words words_of(MemoryTraffic traffic) {
    const std::size_t size = traffic.size();
    return moved_as<Words, std::uint64_t>(std::move(traffic), {size});
}

}  // namespace

void register_hierarchy(nb::module_& m) {
    m.attr("CACHE_MOST_WAYS") = CacheGeometry::most_ways;
    m.attr("CACHE_MOST_HOLDERS") = most_holders;
    m.def("cache_counter_names", [] {
        return std::vector<std::string>(cache_counter_names.begin(), cache_counter_names.end());
    });

    nb::enum_<Replacement> policies(
        m, "Replacement", "The policy that says which line of a full set makes room for another.");
    for (std::size_t i = 0; i < replacement_facts.size(); ++i)
        policies.value(replacement_facts[i].name.data(), static_cast<Replacement>(i));
    m.def("serves_fully_associative", &serves_fully_associative, "replacement"_a,
          "Whether a fully associative cache may have this policy.");
    nb::enum_<Inclusion>(m, "Inclusion", "What a cache has to do with the contents of those above.")
        .value("inclusive", Inclusion::inclusive)
        .value("exclusive", Inclusion::exclusive)
        .value("victim", Inclusion::victim)
        .value("non_inclusive", Inclusion::non_inclusive);
    nb::enum_<AccessKind>(m, "AccessKind", nb::is_arithmetic())
        .value("read", AccessKind::read)
        .value("write", AccessKind::write)
        .value("write_back", AccessKind::write_back)
        .value("stream_store", AccessKind::stream_store);
    nb::class_<CacheGeometry>(m, "CacheGeometry",
                              "Sets (a power of two) of a slice, ways, what goes from a full set; "
                              "or any of its lines anywhere.")
        .def(
            "__init__",
            [](CacheGeometry* geometry, std::uint32_t sets, std::uint32_t ways,
               Replacement replacement, bool fully_associative) {
                new (geometry) CacheGeometry{sets, ways, replacement, fully_associative};
            },
            "sets"_a, "ways"_a, "replacement"_a, "fully_associative"_a);

    using Private = std::pair<CacheGeometry, std::uint32_t>;
    using Shared = std::pair<CacheGeometry, Inclusion>;
    nb::class_<CacheHierarchy>(
        m, "CacheHierarchy",
        "Private caches of some cores, an L3 in slices, and a snoop filter; docs/caches.md.")
        .def(
            "__init__",
            [](CacheHierarchy* hierarchy, std::uint32_t cores, std::optional<Private> l1,
               Private l2, Inclusion l2_inclusion, std::optional<Shared> l3,
               std::optional<CacheGeometry> snoop_filter, std::optional<AddressHash> slices,
               std::uint64_t seed, bool writes_at_once, std::optional<CacheGeometry> l3_beside) {
                HierarchyModel model;
                model.cores = cores;
                if (l1) model.l1 = {l1->first, l1->second};
                model.l2 = {l2.first, l2.second};
                model.l2_inclusion = l2_inclusion;
                if (l3) model.l3 = {l3->first, l3->second};
                model.snoop_filter = snoop_filter;
                model.slices = std::move(slices);
                model.seed = seed;
                model.writes_at_once = writes_at_once;
                model.l3_beside = l3_beside;
                new (hierarchy) CacheHierarchy(model);
            },
            "cores"_a, "l1"_a.none(), "l2"_a, "l2_inclusion"_a, "l3"_a.none(),
            "snoop_filter"_a.none(), "slices"_a.none(), "seed"_a, "writes_at_once"_a,
            "l3_beside"_a.none() = nb::none())
        .def(
            "access",
            [](CacheHierarchy& hierarchy, const Input<std::uint64_t>& lines,
               const Input<std::uint32_t>& cores, const Input<std::uint8_t>& kinds) {
                MemoryTraffic traffic;
                {
                    const nb::gil_scoped_release release;
                    hierarchy.access(span_of(lines), span_of(cores), kinds_of(kinds), traffic);
                }
                return words_of(std::move(traffic));
            },
            "lines"_a, "cores"_a, "kinds"_a,
            "Accesses to physical lines (address / 64) one after the other. Returns what memory "
            "does for them, in order, a word each: line x 2^17 + core x 2 + (1 for a write).")
        .def(
            "access_runs",
            [](CacheHierarchy& hierarchy, const Input<std::uint32_t>& frames,
               const Input<std::uint64_t>& lines, const Input<std::uint16_t>& cores,
               const Input<std::uint8_t>& kinds) {
                MemoryTraffic traffic;
                {
                    const nb::gil_scoped_release release;
                    hierarchy.access(span_of(frames), span_of(lines), span_of(cores),
                                     kinds_of(kinds), traffic);
                }
                return words_of(std::move(traffic));
            },
            "frames"_a, "lines"_a, "cores"_a, "kinds"_a,
            "The same for runs of lines of a frame each, given as masks of 64 bits.")
        .def("copy", [](const CacheHierarchy& hierarchy) { return CacheHierarchy(hierarchy); })
        .def_prop_ro("cores", &CacheHierarchy::cores)
        .def_prop_ro(
            "counts",
            [](const CacheHierarchy& hierarchy) {
                const auto counts = hierarchy.counts();
                auto data = std::make_unique<std::uint64_t[]>(counts.size());
                std::copy(counts.begin(), counts.end(), data.get());
                return owned<Words>(std::move(data), {hierarchy.cores(), cache_counters});
            },
            nb::rv_policy::move, "[core][counter], as cache_counter_names() orders them.")
        .def("reset_counts", &CacheHierarchy::reset_counts, "The caches keep what they hold.");
}

}  // namespace pagelens
