#include "tracer/dynamorio/irregular.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "tracer/dynamorio/masked_elements.hpp"
#include "tracer/dynamorio/operands.hpp"
#include "tracer/dynamorio/processor_state.hpp"

namespace pagelens {

namespace {

// Returns the number of a vector register, whatever its width.
unsigned number_of_vector(reg_id_t reg) {
    if (reg_is_strictly_zmm(reg)) return reg - DR_REG_START_ZMM;
    if (reg_is_strictly_ymm(reg)) return reg - DR_REG_START_YMM;
    return reg - DR_REG_START_XMM;
}

std::int64_t element(reg_id_t vector, unsigned index, unsigned bytes,
                     const dr_mcontext_t& registers) {
    const auto* from = reinterpret_cast<const char*>(&registers.simd[number_of_vector(vector)]);
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (bytes == 8) {
        std::memcpy(&wide, from + std::size_t{8} * index, 8);
        return wide;
    }
    if (bytes == 4) {
        std::memcpy(&narrow, from + std::size_t{4} * index, 4);
        return narrow;
    }
    return static_cast<signed char>(from[index]);
}

struct Elements {
    unsigned index, data;  // bytes
};
Elements elements_of(int opcode) {
    switch (opcode) {
        case OP_vgatherdps:
        case OP_vpgatherdd:
        case OP_vscatterdps:
        case OP_vpscatterdd:
            return {4, 4};
        case OP_vgatherdpd:
        case OP_vpgatherdq:
        case OP_vscatterdpd:
        case OP_vpscatterdq:
            return {4, 8};
        case OP_vgatherqps:
        case OP_vpgatherqd:
        case OP_vscatterqps:
        case OP_vpscatterqd:
            return {8, 4};
        default:
            return {8, 8};
    }
}

void gather_or_scatter(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const opnd_t operand = memory->operand;
    const Elements bytes = elements_of(instr_get_opcode(instruction));
    const opnd_t data = memory->store ? instr_get_src(instruction, instr_num_srcs(instruction) - 1)
                                      : instr_get_dst(instruction, 0);
    const unsigned data_bytes = opnd_is_reg(data) ? bytes_of(data) : 64;
    const auto mask = mask_register(instruction);
    const reg_id_t vector = opnd_get_index(operand);
    const unsigned index_bytes = opnd_size_in_bytes(reg_get_size(vector));
    const unsigned count = std::min(data_bytes / bytes.data, index_bytes / bytes.index);
    reg_id_t vector_mask = DR_REG_NULL;  // of AVX2: the source that is not the destination's value
    for (int i = 0; i < instr_num_srcs(instruction) && !mask; ++i) {
        const opnd_t source = instr_get_src(instruction, i);
        if (opnd_is_reg(source) && reg_is_simd(opnd_get_reg(source)) &&
            !opnd_same(source, instr_get_dst(instruction, 0))) {
            vector_mask = opnd_get_reg(source);
        }
    }
    const std::uint64_t base = general(opnd_get_base(operand), registers) +
                               static_cast<std::uint64_t>(std::int64_t{opnd_get_disp(operand)});
    for (unsigned i = 0; i < count; ++i) {
        const bool active = mask ? (registers.opmask[*mask - DR_REG_START_OPMASK] >> i & 1) != 0
                                 : element(vector_mask, i, bytes.data, registers) < 0;
        if (!active) continue;
        const std::int64_t index = element(vector, i, bytes.index, registers);
        emit({base + static_cast<std::uint64_t>(index * opnd_get_scale(operand)), memory->store,
              bytes.data});
    }
}

// A vector register of sign bits says which elements are moved.
void masked_by_vector(instr_t* instruction, unsigned bytes, int mask_source,
                      const dr_mcontext_t& registers, const Emit& emit, bool stream = false) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    reg_id_t mask = DR_REG_NULL;
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t source = instr_get_src(instruction, i);
        if (!opnd_is_reg(source) || reg_is_gpr(opnd_get_reg(source))) continue;
        if (mask_source-- == 0) mask = opnd_get_reg(source);
    }
    if (mask == DR_REG_NULL) return;
    const std::uint64_t address = address_of(memory->operand, registers);
    const unsigned count = opnd_size_in_bytes(reg_get_size(mask)) / bytes;
    for (unsigned i = 0; i < count; ++i) {
        if (element(mask, i, bytes, registers) < 0)
            emit({address + std::uint64_t{i} * bytes, memory->store, bytes, stream});
    }
}

// The register of an instruction that takes a bit from a string of bits.
std::optional<reg_id_t> bit_register(instr_t* instruction) {
    switch (instr_get_opcode(instruction)) {
        case OP_bt:
        case OP_bts:
        case OP_btr:
        case OP_btc:
            break;
        default:
            return std::nullopt;
    }
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t source = instr_get_src(instruction, i);
        if (opnd_is_reg(source) && reg_is_gpr(opnd_get_reg(source))) return opnd_get_reg(source);
    }
    return std::nullopt;
}

// The bit may lie anywhere around the operand.
void bit_of_string(instr_t* instruction, reg_id_t reg, const dr_mcontext_t& registers,
                   const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const unsigned bytes = bytes_of(memory->operand);
    const unsigned unused_bits = 64 - 8 * bytes;
    const auto bit = static_cast<std::int64_t>(general(reg, registers) << unused_bits);
    const std::int64_t word = (bit >> unused_bits) >> std::countr_zero(8 * bytes);
    const std::uint64_t address =
        address_of(memory->operand, registers) + static_cast<std::uint64_t>(word) * bytes;
    emit({address, false, bytes});
    if (memory->store) emit({address, true, bytes});
}

void string_operation(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const int opcode = instr_get_opcode(instruction);
    const bool compares = opcode == OP_rep_cmps || opcode == OP_repne_cmps;
    const bool scans = opcode == OP_rep_scas || opcode == OP_repne_scas;
    const bool while_equal = opcode == OP_rep_cmps || opcode == OP_rep_scas;
    const bool loads = opcode == OP_rep_movs || opcode == OP_rep_lods || compares;
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const unsigned bytes = bytes_of(memory->operand);
    const std::uint64_t all = bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * bytes) - 1;
    const bool backwards = (registers.xflags >> 10 & 1) != 0;
    const std::uint64_t step = backwards ? -std::uint64_t{bytes} : std::uint64_t{bytes};
    std::uint64_t from = registers.xsi, to = registers.xdi;
    for (std::uint64_t left = registers.xcx; left > 0; --left, from += step, to += step) {
        if (loads) emit({from, false, bytes});
        if (opcode != OP_rep_lods) emit({to, !compares && !scans, bytes});
        if (!compares && !scans) continue;
        const std::uint64_t one = scans ? registers.xax & all : read_element(from, bytes);
        if ((one == read_element(to, bytes)) != while_equal) break;
    }
}

}  // namespace

bool is_string_operation(instr_t* instruction) {
    switch (instr_get_opcode(instruction)) {
        case OP_rep_movs:
        case OP_rep_stos:
        case OP_rep_lods:
        case OP_rep_cmps:
        case OP_repne_cmps:
        case OP_rep_scas:
        case OP_repne_scas:
            return true;
        default:
            return false;
    }
}

bool is_bit_of_string(instr_t* instruction) { return bit_register(instruction).has_value(); }

void irregular_accesses(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    if (is_string_operation(instruction)) return string_operation(instruction, registers, emit);
    if (instr_is_gather(instruction) || instr_is_scatter(instruction))
        return gather_or_scatter(instruction, registers, emit);
    switch (instr_get_opcode(instruction)) {
        case OP_maskmovq:  // of MMX, whose registers are not at hand: the whole of it
            return emit({registers.xdi, true, 8, true});
        case OP_maskmovdqu:
        case OP_vmaskmovdqu:
            return masked_by_vector(instruction, 1, 1, registers, emit, true);
        case OP_vmaskmovps:
            return masked_by_vector(instruction, 4, 0, registers, emit);
        case OP_vmaskmovpd:
            return masked_by_vector(instruction, 8, 0, registers, emit);
        // DynamoRIO names the value first where these two store.
        case OP_vpmaskmovd:
            return masked_by_vector(instruction, 4, instr_writes_memory(instruction), registers,
                                    emit);
        case OP_vpmaskmovq:
            return masked_by_vector(instruction, 8, instr_writes_memory(instruction), registers,
                                    emit);
        default:
            break;
    }
    if (const auto reg = bit_register(instruction))
        return bit_of_string(instruction, *reg, registers, emit);
    if (mask_register(instruction)) return masked_elements(instruction, registers, emit);
    if (moves_tile(instruction)) return tile_rows(instruction, registers, emit);
    save_area(instruction, registers, emit);
}

}  // namespace pagelens
