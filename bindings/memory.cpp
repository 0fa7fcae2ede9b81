#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/frames/isolation.hpp"
#include "core/frames/memory.hpp"
#include "core/frames/sorts.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {
namespace {

using Numbers = nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>>;
using Table = nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<2>>;
using NumbersIn = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TableIn = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using BytesIn = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// An array that owns rows of `columns` numbers.
std::unique_ptr<std::uint32_t[]> table_of(std::size_t size) {
    return std::make_unique<std::uint32_t[]>(size);
}

Table moves_table(const std::vector<Move>& moves) {
    auto data = table_of(moves.size() * 2);
    for (std::size_t i = 0; i < moves.size(); ++i) {
        data[2 * i] = moves[i].from.raw();
        data[2 * i + 1] = moves[i].to.raw();
    }
    return owned<Table>(std::move(data), {moves.size(), 2});
}

Table blocks_table(const std::vector<FreeBlock>& blocks) {
    auto data = table_of(blocks.size() * 3);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        data[3 * i] = blocks[i].first.raw();
        data[3 * i + 1] = blocks[i].order;
        data[3 * i + 2] = static_cast<std::uint32_t>(blocks[i].type);
    }
    return owned<Table>(std::move(data), {blocks.size(), 3});
}

void require_columns(const TableIn& table, std::size_t columns, const char* name) {
    if (table.shape(1) != columns) {
        throw std::invalid_argument(std::string(name) + ": needs " + std::to_string(columns) +
                                    " columns, not " + std::to_string(table.shape(1)));
    }
}

FreeBlock block_of(const std::uint32_t* row) {
    if (row[2] >= migrate_types) {
        throw std::invalid_argument("free: migrate type " + std::to_string(row[2]) +
                                    " is not one of unmovable 0, movable 1, reclaimable 2, "
                                    "isolate 3");
    }
    return {Frame(row[0]), row[1], static_cast<MigrateType>(row[2])};
}

Memory taken_over(Layout layout, const TableIn& free, const TableIn& cached, const BytesIn& use,
                  const BytesIn& pageblocks) {
    require_columns(free, 3, "free");
    require_columns(cached, 4, "cached");
    std::vector<FreeBlock> blocks;
    for (std::size_t i = 0; i < free.shape(0); ++i) blocks.push_back(block_of(&free(i, 0)));
    std::vector<CachedBlock> lists;
    for (std::size_t i = 0; i < cached.shape(0); ++i) {
        lists.push_back({cached(i, 0), block_of(&cached(i, 1))});
    }
    std::vector<FrameUse> uses;
    for (std::size_t i = 0; i < use.shape(0); ++i) uses.push_back(static_cast<FrameUse>(use(i)));
    std::vector<MigrateType> types;
    for (std::size_t i = 0; i < pageblocks.shape(0); ++i) {
        types.push_back(static_cast<MigrateType>(pageblocks(i)));
    }
    return Memory::taken_over(std::move(layout), blocks, lists, uses, types);
}

Numbers alloc_many(Memory& memory, const Request& request, Memory::Mark mark, std::uint32_t count) {
    if (request.cpu >= memory.cpus() || request.order > max_order) {
        throw std::invalid_argument("alloc: CPU " + std::to_string(request.cpu) + ", order " +
                                    std::to_string(request.order) + " does not exist");
    }
    auto data = table_of(count);
    std::size_t got = 0;
    {
        const nb::gil_scoped_release unlocked;
        for (; got < count; ++got) {
            const auto frame = memory.alloc(request, mark);
            if (!frame) break;
            data[got] = frame->raw();
        }
    }
    return owned<Numbers>(std::move(data), {got});
}

}  // namespace

void register_memory(nb::module_& m) {
    nb::enum_<MigrateType>(m, "MigrateType")
        .value("unmovable", MigrateType::unmovable)
        .value("movable", MigrateType::movable)
        .value("reclaimable", MigrateType::reclaimable)
        .value("isolate", MigrateType::isolate);
    // Whole numbers, because arrays of them describe a machine's frames.
    m.attr("FRAME_PINNED") = static_cast<std::uint8_t>(FrameUse::pinned);
    m.attr("FRAME_MOVABLE") = static_cast<std::uint8_t>(FrameUse::movable);
    m.attr("FRAME_HOLE") = static_cast<std::uint8_t>(FrameUse::hole);
    nb::enum_<Memory::Mark>(m, "Mark", "How far a request may lower a zone's free memory.")
        .value("low", Memory::Mark::low)
        .value("min", Memory::Mark::min)
        .value("none", Memory::Mark::none);
    nb::enum_<ZoneKind>(m, "ZoneKind")
        .value("dma", ZoneKind::dma)
        .value("dma32", ZoneKind::dma32)
        .value("normal", ZoneKind::normal);

    nb::class_<ZoneSpec>(m, "ZoneSpec", "A zone as /proc/zoneinfo shows it; sizes in frames.")
        .def(
            "__init__",
            [](ZoneSpec* zone, ZoneKind kind, unsigned numa, std::uint32_t begin,
               std::uint32_t end) {
                new (zone) ZoneSpec{kind, numa, begin, end, 0, 0, 0, 0, 0, 0};
            },
            nb::kw_only(), "kind"_a, "numa"_a, "begin"_a, "end"_a)
        .def_ro("kind", &ZoneSpec::kind)
        .def_ro("numa", &ZoneSpec::numa)
        .def_ro("begin", &ZoneSpec::begin)
        .def_ro("end", &ZoneSpec::end)
        .def_rw("min", &ZoneSpec::min)
        .def_rw("low", &ZoneSpec::low)
        .def_rw("high", &ZoneSpec::high)
        .def_rw("protection", &ZoneSpec::protection)
        .def_rw("pcp_high", &ZoneSpec::pcp_high)
        .def_rw("pcp_batch", &ZoneSpec::pcp_batch);

    nb::class_<Layout>(m, "Layout", "Zones and CPUs of a node.")
        .def(
            "__init__",
            [](Layout* layout, std::uint32_t frames, std::vector<ZoneSpec> zones,
               std::vector<std::uint8_t> cpu_numa, const std::string& kernel) {
                new (layout) Layout{frames, std::move(zones),    std::move(cpu_numa), {},
                                    0,      kernel_rules(kernel)};
            },
            "frames"_a, "zones"_a, "cpu_numa"_a, "kernel"_a = "6.1")
        .def_ro("frames", &Layout::frames)
        .def_ro("zones", &Layout::zones)
        .def_ro("cpu_numa", &Layout::cpu_numa);
    m.def("kernel_versions", [] { return kernel_versions; });
    m.def(
        "linux_layout",
        [](std::uint32_t frames, unsigned numas, unsigned cpus, std::uint32_t low_frames,
           unsigned page_order, const std::string& kernel) {
            return linux_layout(frames, numas, cpus, low_frames, page_order, kernel_rules(kernel));
        },
        "frames"_a, "numas"_a, "cpus"_a, "low_frames"_a = dma32_end, "page_order"_a = 0,
        "kernel"_a = "6.1");
    m.def(
        "numa_layout",
        [](const std::vector<std::uint32_t>& frames, std::vector<std::uint8_t> cpu_numa,
           std::vector<std::uint8_t> distances, std::uint32_t low_frames, unsigned page_order,
           const std::string& kernel) {
            return numa_layout(frames, std::move(cpu_numa), std::move(distances), low_frames,
                               page_order, kernel_rules(kernel));
        },
        "frames"_a, "cpu_numa"_a, "distances"_a, "low_frames"_a = dma32_end, "page_order"_a = 0,
        "kernel"_a = "6.1",
        "NUMA nodes of these frames each, in order of address; distances by rows, or none.");
    m.def("fallback_orders", &fallback_orders, "nodes"_a, "cpu_numa"_a, "distances"_a,
          "[node]: the nodes in the order in which its requests try them.");
    m.def("bare_layout", &bare_layout, "frames"_a);
    m.def(
        "with_sizes",
        [](Layout layout) {
            fill_in_sizes(layout);
            return layout;
        },
        "layout"_a,
        "A layout whose zones' watermarks and per-cpu sizes are Linux's for their spans.");

    nb::class_<Memory>(m, "Memory", "Linux's page allocator; copying it is a snapshot.")
        .def(nb::init<Layout, std::uint32_t>(), "layout"_a, "grain"_a)
        .def(nb::init<const Memory&>(), "other"_a)
        .def_static("taken_over", &taken_over, "layout"_a, "free"_a, "cached"_a, "use"_a,
                    "pageblocks"_a,
                    "A running kernel's state. free: rows (frame, order, type), each list head "
                    "first; cached: rows (cpu, frame, order, type) of the per-cpu lists; use: a "
                    "byte a frame, pinned 0, movable 1, hole 2; pageblocks: a type for each 2 MiB.")
        .def(
            "alloc",
            [](Memory& memory, unsigned cpu, unsigned order, MigrateType type, std::uint64_t numas,
               std::uint32_t count, Memory::Mark mark) {
                return alloc_many(memory, {cpu, order, type, numas}, mark, count);
            },
            "cpu"_a, "order"_a, "type"_a, "numas"_a, "count"_a, "mark"_a,
            "First frames of up to `count` blocks; fewer where no zone of the NUMA nodes in the "
            "bit "
            "mask `numas` has one above the mark.")
        .def(
            "free",
            [](Memory& memory, unsigned cpu, const NumbersIn& frames, unsigned order) {
                const nb::gil_scoped_release unlocked;
                for (std::size_t i = 0; i < frames.shape(0); ++i) {
                    memory.free(cpu, Frame(frames(i)), order);
                }
            },
            "cpu"_a, "frames"_a, "order"_a, "Gives blocks back, in this order.")
        .def(
            "pin",
            [](Memory& memory, const NumbersIn& frames) {
                for (std::size_t i = 0; i < frames.shape(0); ++i) {
                    memory.map().pin(Frame(frames(i)));
                }
            },
            "frames"_a, "Makes page migration leave these pages alone, which something holds.")
        .def("drain", nb::overload_cast<>(&Memory::drain), nb::call_guard<nb::gil_scoped_release>())
        .def(
            "compact",
            [](Memory& memory, unsigned cpu) { return moves_table(compact(memory, cpu)); }, "cpu"_a,
            "Rows (from, to): the pages that moved.")
        .def("sort_by_address", &sort_by_address, nb::call_guard<nb::gil_scoped_release>())
        .def("sort_by_buckets", &sort_by_buckets, "slots"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def(
            "sort_for_cache",
            [](Memory& memory, std::uint32_t slots, bool evacuating, unsigned cpu) {
                return moves_table(sort_for_cache(memory, slots, evacuating, cpu));
            },
            "slots"_a, "evacuating"_a, "cpu"_a, "Rows (from, to): the pages that moved.")
        .def(
            "shuffle", [](Memory& memory, Random random) { shuffle(memory, random); }, "random"_a)
        .def(
            "shuffle_on_free",
            [](Memory& memory, Random random) { shuffle_on_free(memory, random); }, "random"_a)
        .def(
            "take_offline",
            [](Memory& memory, std::uint32_t begin, std::uint32_t end, unsigned cpu) {
                std::vector<Move> moves;
                const bool done = take_offline(memory, Frame(begin), Frame(end), cpu, moves);
                return std::pair(done, moves_table(moves));
            },
            "begin"_a, "end"_a, "cpu"_a, "Whether it succeeded, and the pages that moved.")
        .def(
            "bring_online",
            [](Memory& memory, std::uint32_t begin, std::uint32_t end) {
                bring_online(memory, Frame(begin), Frame(end));
            },
            "begin"_a, "end"_a)
        .def(
            "free_blocks", [](const Memory& memory) { return blocks_table(memory.free_blocks()); },
            "Rows (frame, order, type): zone by zone, order by order, type by type, head first.")
        .def_prop_ro("frames", &Memory::frames)
        .def_prop_ro("grain", &Memory::grain)
        .def_prop_ro("numas", &Memory::numas)
        .def_prop_ro("cpus", &Memory::cpus)
        .def(
            "free_on",
            [](const Memory& memory, unsigned numa) {
                std::uint32_t frames = 0;
                for (const Zone& zone : memory.zones())
                    frames += zone.spec().numa == numa ? zone.free_frames() : 0;
                return frames;
            },
            "numa"_a, "The free frames in the lists of a NUMA node's zones.")
        .def_prop_ro("free_frames", &Memory::free_frames)
        .def_prop_ro("cached_frames", &Memory::cached_frames);
}

}  // namespace pagelens
