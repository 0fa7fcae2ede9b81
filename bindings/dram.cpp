#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/address/linear.hpp"
#include "core/machine/dram.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using Requests = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr std::array counter_names = {"reads",     "writes",    "hits",   "misses",
                                      "conflicts", "refreshes", "busy_ps"};

constexpr std::array<std::pair<const char*, Picoseconds DramTimings::*>, 22> timing_fields = {{
    {"tCK", &DramTimings::tCK},       {"burst", &DramTimings::burst},
    {"CL", &DramTimings::CL},         {"CWL", &DramTimings::CWL},
    {"tRCD", &DramTimings::tRCD},     {"tRP", &DramTimings::tRP},
    {"tRAS", &DramTimings::tRAS},     {"tRC", &DramTimings::tRC},
    {"tRRD_S", &DramTimings::tRRD_S}, {"tRRD_L", &DramTimings::tRRD_L},
    {"tFAW", &DramTimings::tFAW},     {"tCCD_S", &DramTimings::tCCD_S},
    {"tCCD_L", &DramTimings::tCCD_L}, {"tCCD_L_WR", &DramTimings::tCCD_L_WR},
    {"tWTR_S", &DramTimings::tWTR_S}, {"tWTR_L", &DramTimings::tWTR_L},
    {"tRTW", &DramTimings::tRTW},     {"tRTRS", &DramTimings::tRTRS},
    {"tRTP", &DramTimings::tRTP},     {"tWR", &DramTimings::tWR},
    {"tREFI", &DramTimings::tREFI},   {"tRFC", &DramTimings::tRFC},
}};

DramTimings timings_of(const std::map<std::string, std::int64_t>& picoseconds) {
    DramTimings timings;
    for (const auto& [name, field] : timing_fields) {
        const auto found = picoseconds.find(name);
        if (found == picoseconds.end())
            throw std::invalid_argument(std::string(name) + ": missing");
        timings.*field = Picoseconds(found->second);
    }
    return timings;
}

template <class T>
nb::ndarray<nb::numpy, T> array_of(std::unique_ptr<T[]> data,
                                   std::initializer_list<std::size_t> shape) {
    return owned<nb::ndarray<nb::numpy, T>>(std::move(data), shape);
}

}  // namespace

void register_dram(nb::module_& m) {
    m.attr("DRAM_WRITE") = Dram::write_bit;
    m.attr("DRAM_MOST_WINDOW") = DramChannel::most_window;
    m.attr("DRAM_MOST_OUTSTANDING") = Dram::most_outstanding;
    m.def("dram_counter_names",
          [] { return std::vector<std::string>(counter_names.begin(), counter_names.end()); });
    m.def(
        "first_dependence",
        [](const Masks& masks) -> std::optional<std::pair<std::size_t, std::vector<std::size_t>>> {
            const auto found = first_dependence(masks);
            if (!found) return std::nullopt;
            return std::pair(found->mask, found->of);
        },
        "masks"_a,
        "The first mask that is the exclusive or of masks before it, and which these are; None "
        "where "
        "all are independent.");

    nb::enum_<RowPolicy>(m, "RowPolicy")
        .value("open", RowPolicy::open)
        .value("closed", RowPolicy::closed)
        .value("ideal", RowPolicy::ideal, "every access finds its row open");
    nb::class_<DramFields>(m, "DramFields", "Masks of address bits that select places in a DRAM.")
        .def(
            "__init__",
            [](DramFields* fields, unsigned offset_bits, Masks column, Masks bank, Masks bank_group,
               Masks rank, Masks channel, Masks row, std::uint32_t interleave,
               unsigned interleave_bit) {
                new (fields)
                    DramFields{offset_bits,           std::move(column), std::move(bank),
                               std::move(bank_group), std::move(rank),   std::move(channel),
                               std::move(row),        interleave,        interleave_bit};
            },
            nb::kw_only(), "offset_bits"_a, "column"_a, "bank"_a, "bank_group"_a, "rank"_a,
            "channel"_a, "row"_a, "interleave"_a, "interleave_bit"_a);
    nb::class_<DramMap>(m, "DramMap", "Places of physical addresses in a DRAM.")
        .def(nb::init<const DramFields&>(), "fields"_a)
        .def(
            "__call__",
            [](const DramMap& map, Requests addresses) {
                const std::size_t size = addresses.size();
                for (std::size_t i = 0; i < size; ++i) {
                    if (addresses.data()[i] >= map.bytes()) {
                        throw std::out_of_range("address beyond the DRAM");
                    }
                }
                auto banks = std::make_unique<std::uint32_t[]>(size);
                auto rows = std::make_unique<std::uint32_t[]>(size);
                for (std::size_t i = 0; i < size; ++i) {
                    const DramPlace place = map(addresses.data()[i]);
                    banks[i] = place.bank;
                    rows[i] = place.row;
                }
                return std::pair(array_of(std::move(banks), {size}),
                                 array_of(std::move(rows), {size}));
            },
            "addresses"_a, "Banks (of all) and rows of N addresses.")
        .def_prop_ro("bytes", &DramMap::bytes)
        .def_prop_ro("banks", &DramMap::banks, "of all channels")
        .def_prop_ro("channels", &DramMap::channels);
    nb::class_<Dram>(m, "Dram", "A DRAM and the cores that use it; time goes on from run to run.")
        .def(
            "__init__",
            [](Dram* dram, const DramFields& fields,
               const std::map<std::string, std::int64_t>& timings_ps, RowPolicy policy,
               unsigned window, unsigned outstanding, std::int64_t path_ps) {
                new (dram) Dram({fields, timings_of(timings_ps), policy, window, outstanding,
                                 Picoseconds(path_ps)});
            },
            nb::kw_only(), "fields"_a, "timings_ps"_a, "policy"_a, "window"_a, "outstanding"_a,
            "path_ps"_a)
        .def(
            "run",
            [](Dram& dram, const std::vector<Requests>& cores) {
                std::vector<std::span<const std::uint64_t>> spans;
                for (const Requests& core : cores) spans.emplace_back(core.data(), core.size());
                nb::gil_scoped_release release;
                dram.run(spans);
            },
            "cores"_a, "Runs a core for each uint64 array of addresses (| DRAM_WRITE), to the end.")
        .def_prop_ro("time_ps", [](const Dram& d) { return d.totals().time.raw(); })
        .def_prop_ro(
            "read_latency_ps", [](const Dram& d) { return d.totals().read_latency.raw(); },
            "summed over reads")
        .def(
            "counts",
            [](const Dram& dram) {
                const auto counts = dram.counts();
                auto table =
                    std::make_unique<std::uint64_t[]>(counts.size() * counter_names.size());
                std::uint64_t* next = table.get();
                for (const DramBankCounts& bank : counts) {
                    for (const std::uint64_t value :
                         {bank.reads, bank.writes, bank.hits, bank.misses, bank.conflicts,
                          bank.refreshes, static_cast<std::uint64_t>(dram.busy(bank).raw())}) {
                        *next++ = value;
                    }
                }
                return array_of(std::move(table), {counts.size(), counter_names.size()});
            },
            "uint64[bank, counter]; see dram_counter_names()");
}

}  // namespace pagelens
