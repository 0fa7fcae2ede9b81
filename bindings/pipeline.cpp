// nanobind of the core's pipeline: core/machine/pipeline.hpp, branch_prediction.hpp,
// prefetched_streams.hpp.
#include "core/machine/pipeline.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/machine/branch_prediction.hpp"
#include "core/machine/prefetched_streams.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

namespace {

using OpTable = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Fetch = nb::ndarray<const float, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Blocks = std::vector<std::vector<std::uint32_t>>;

// A column for each field of CodeInstruction, in this order.
const char* const columns[] = {"operation", "slots",        "load",    "store",   "branch",
                               "base",      "index",        "source0", "source1", "source2",
                               "source3",   "result0",      "result1", "result2", "origin",
                               "constant",  "displacement", "scale"};
constexpr std::size_t column_count = std::size(columns);

std::uint8_t small(std::int64_t value, std::int64_t limit, const char* name) {
    if (value < 0 || value >= limit)
        throw std::invalid_argument(std::string(name) + ": " + std::to_string(value) +
                                    " is not below " + std::to_string(limit));
    return static_cast<std::uint8_t>(value);
}

CodeInstruction instruction_of(const std::int64_t* row) {
    const auto in_register = [&](std::size_t i) {
        return small(row[i], code_registers, columns[i]);
    };
    CodeInstruction one;
    one.operation = static_cast<Operation>(small(row[0], operations, columns[0]));
    one.slots = small(row[1], 256, columns[1]);
    one.load = static_cast<Access>(small(row[2], 3, columns[2]));
    one.store = static_cast<Access>(small(row[3], 3, columns[3]));
    one.branch = static_cast<BranchKind>(small(row[4], 4, columns[4]));
    for (std::size_t i = 0; i < 2; ++i) one.address[i] = in_register(5 + i);
    for (std::size_t i = 0; i < 4; ++i) one.sources[i] = in_register(7 + i);
    for (std::size_t i = 0; i < 3; ++i) one.results[i] = in_register(11 + i);
    one.origin = in_register(14);
    one.constant = row[15];
    one.displacement = row[16];
    one.scale = small(row[17], 16, columns[17]);
    return one;
}

Code code_of(const OpTable& table, const Input<std::uint64_t>& begin,
             const Input<std::uint64_t>& address, const Input<std::uint64_t>& bytes) {
    const std::size_t blocks = address.size();
    if (table.shape(1) != column_count || begin.size() != blocks + 1 || bytes.size() != blocks)
        throw std::invalid_argument("the shapes of table, begin, address and bytes do not agree");
    Code code;
    for (std::size_t row = 0; row < table.shape(0); ++row)
        code.instructions.push_back(instruction_of(table.data() + row * column_count));
    code.begin.assign(begin.data(), begin.data() + begin.size());
    if (!std::is_sorted(code.begin.begin(), code.begin.end()) ||
        code.begin.back() != table.shape(0))
        throw std::invalid_argument("begin: has to ascend to the number of instructions");
    code.address.assign(address.data(), address.data() + blocks);
    code.bytes.assign(bytes.data(), bytes.data() + blocks);
    return code;
}

void check(const Code& code, const Blocks& samples) {
    for (const auto& blocks : samples)
        for (const std::uint32_t block : blocks)
            if (block >= code.address.size())
                throw std::invalid_argument("samples: there is no block " + std::to_string(block));
}

}  // namespace

void register_pipeline(nb::module_& m) {
    nb::class_<Code>(m, "Code", "Decoded blocks of instructions (core/machine/code.hpp).")
        .def(
            "__init__",
            [](Code* code, const OpTable& table, const Input<std::uint64_t>& begin,
               const Input<std::uint64_t>& address, const Input<std::uint64_t>& bytes) {
                new (code) Code(code_of(table, begin, address, bytes));
            },
            "table"_a, "begin"_a, "address"_a, "bytes"_a,
            "table: int64 [instruction, 18], a column for each field; begin: first instruction of "
            "each block, and their number. Raises ValueError for what is out of range.");
    nb::class_<PipelineShape>(m, "PipelineShape")
        .def(nb::init<>())
        .def_rw("width", &PipelineShape::width)
        .def_rw("window", &PipelineShape::window)
        .def_rw("retire_width", &PipelineShape::retire_width)
        .def_rw("scheduler", &PipelineShape::scheduler)
        .def_rw("vector_scheduler", &PipelineShape::vector_scheduler)
        .def_rw("integer_results", &PipelineShape::integer_results)
        .def_rw("load_ports", &PipelineShape::load_ports)
        .def_rw("vector_load_ports", &PipelineShape::vector_load_ports)
        .def_rw("store_ports", &PipelineShape::store_ports)
        .def_rw("store_data_ports", &PipelineShape::store_data_ports)
        .def_rw("vector_store_data_ports", &PipelineShape::vector_store_data_ports)
        .def_rw("vector_load_cycles", &PipelineShape::vector_load_cycles)
        .def_rw("forward_cycles", &PipelineShape::forward_cycles)
        .def_rw("add_to_add_cycles", &PipelineShape::add_to_add_cycles)
        .def_rw("load_cycles", &PipelineShape::load_cycles)
        .def_rw("mispredict_cycles", &PipelineShape::mispredict_cycles)
        .def_rw("outstanding", &PipelineShape::outstanding)
        .def(
            "set_operation",
            [](PipelineShape& shape, std::size_t operation, Ports ports, std::int64_t cycles,
               std::int64_t every) {
                if (operation >= operations) throw std::invalid_argument("operation: out of range");
                shape.ports[operation] = ports;
                shape.cycles[operation] = small(cycles, 256, "cycles");
                shape.every[operation] = small(every, 256, "every");
            },
            "operation"_a, "ports"_a, "cycles"_a, "every"_a);
    m.def(
        "foreseen_branches",
        [](const Code& code, const Blocks& samples) {
            check(code, samples);
            const nb::gil_scoped_release released;
            return foreseen_branches(code, samples);
        },
        "code"_a, "samples"_a,
        "For each block of each sample: 0 if its branch was mispredicted, otherwise 1.");
    m.attr("stream_follows") = stream_use::follows;
    m.attr("stream_moves") = stream_use::moves;
    m.attr("stream_full") = stream_use::full;
    m.attr("stream_repeats") = stream_use::repeats;
    m.def(
        "stream_uses",
        [](const Input<std::uint64_t>& lines, const Input<std::uint64_t>& places,
           std::size_t streams, std::int64_t near, std::int64_t stride) {
            if (lines.size() != places.size())
                throw std::invalid_argument("places: as many as lines");
            std::vector<std::uint8_t> uses;
            {
                const nb::gil_scoped_release released;
                uses = stream_uses(span_of(lines), span_of(places), {streams, near, stride});
            }
            return moved(std::move(uses));
        },
        "lines"_a, "places"_a, "streams"_a, "near"_a, "stride"_a,
        "What each access does to the streams of lines, as a sum: it `stream_follows` one, or its "
        "instruction's step; that `stream_moves` on; all streams are taken (`stream_full`); one "
        "has come to its line already (`stream_repeats`). uint8 [access]. `places` are numbers of "
        "the instructions.");
    m.def(
        "pipeline_cycles",
        [](const Code& code, const std::vector<std::uint32_t>& blocks,
           const std::vector<std::uint8_t>& foreseen, const Fetch& fetch,
           const Input<std::uint64_t>& slow_block, const Input<std::uint64_t>& slow_instruction,
           const Input<std::uint32_t>& slow_cycles, const PipelineShape& shape) {
            check(code, {blocks});
            if (foreseen.size() != blocks.size() || slow_block.size() != slow_cycles.size() ||
                slow_instruction.size() != slow_cycles.size() ||
                (fetch.shape(0) != 0 && fetch.shape(0) != code.address.size()))
                throw std::invalid_argument("the lengths of the arrays do not agree");
            std::vector<SlowAccess> slow;
            for (std::size_t i = 0; i < slow_block.size(); ++i)
                slow.push_back(
                    {slow_block.data()[i], slow_instruction.data()[i], slow_cycles.data()[i]});
            std::vector<FetchCycles> of_blocks;
            for (std::size_t b = 0; b < fetch.shape(0); ++b)
                of_blocks.push_back({fetch.data()[2 * b], fetch.data()[2 * b + 1]});
            const nb::gil_scoped_release released;
            return pipeline_cycles(code, blocks, foreseen, of_blocks, slow, shape);
        },
        "code"_a, "blocks"_a, "foreseen"_a, "fetch"_a, "slow_block"_a, "slow_instruction"_a,
        "slow_cycles"_a, "shape"_a,
        "Cycles of one sample; fetch: float32 [block of the code, 2], steady and restart, or [0, "
        "2]; "
        "slow: accesses beyond L1, in the order of the blocks.");
}

}  // namespace pagelens
