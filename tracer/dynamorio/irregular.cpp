#include "tracer/dynamorio/irregular.hpp"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace pagelens {

namespace {

using Emit = std::function<void(const IrregularAccess&)>;

std::uint64_t general(reg_id_t reg, const dr_mcontext_t& registers) {
    if (reg == DR_REG_NULL) return 0;
    return reg_get_value(reg, const_cast<dr_mcontext_t*>(&registers));  // it only reads
}

std::uint64_t address_of(opnd_t operand, const dr_mcontext_t& registers) {
    auto* const reads = const_cast<dr_mcontext_t*>(&registers);
    return reinterpret_cast<std::uint64_t>(opnd_compute_address(operand, reads));
}

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

std::optional<reg_id_t> mask_register(instr_t* instruction) {
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t operand = instr_get_src(instruction, i);
        if (opnd_is_reg(operand) && opnd_get_reg(operand) >= DR_REG_START_OPMASK &&
            opnd_get_reg(operand) <= DR_REG_STOP_OPMASK) {
            return opnd_get_reg(operand);
        }
    }
    return std::nullopt;
}

std::uint64_t mask_value(reg_id_t mask, const dr_mcontext_t& registers) {
    return registers.opmask[mask - DR_REG_START_OPMASK];
}

// The memory operand, and whether it is written.
struct Memory {
    opnd_t operand;
    bool store;
};
std::optional<Memory> memory_of(instr_t* instruction) {
    for (int i = 0; i < instr_num_dsts(instruction); ++i) {
        const opnd_t operand = instr_get_dst(instruction, i);
        if (opnd_is_memory_reference(operand)) return Memory{operand, true};
    }
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t operand = instr_get_src(instruction, i);
        if (opnd_is_memory_reference(operand)) return Memory{operand, false};
    }
    return std::nullopt;
}

unsigned bytes_of(opnd_t operand) { return opnd_size_in_bytes(opnd_get_size(operand)); }

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
        const bool active = mask ? (mask_value(*mask, registers) >> i & 1) != 0
                                 : element(vector_mask, i, bytes.data, registers) < 0;
        if (!active) continue;
        const std::int64_t index = element(vector, i, bytes.index, registers);
        emit({base + static_cast<std::uint64_t>(index * opnd_get_scale(operand)), memory->store,
              bytes.data});
    }
}

// A vector register of sign bits says which elements are moved.
void masked_by_vector(instr_t* instruction, unsigned bytes, int mask_source,
                      const dr_mcontext_t& registers, const Emit& emit) {
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
            emit({address + std::uint64_t{i} * bytes, memory->store, bytes});
    }
}

bool is_compressed(int opcode) {
    switch (opcode) {
        case OP_vpcompressb:
        case OP_vpcompressw:
        case OP_vpexpandb:
        case OP_vpexpandw:
        case OP_vcompressps:
        case OP_vcompresspd:
        case OP_vpcompressd:
        case OP_vpcompressq:
        case OP_vexpandps:
        case OP_vexpandpd:
        case OP_vpexpandd:
        case OP_vpexpandq:
            return true;
        default:
            return false;
    }
}

// Bytes in memory of an element that one bit of the mask stands for. EVEX.W states them, except
// where these are bytes or words. (Intel SDM volume 2, 2.7.)
unsigned masked_element(instr_t* instruction) {
    switch (instr_get_opcode(instruction)) {
        case OP_vmovdqu8:
        case OP_vpcompressb:
        case OP_vpexpandb:
        case OP_vpmovwb:
        case OP_vpmovswb:
        case OP_vpmovuswb:
        case OP_vpmovdb:
        case OP_vpmovsdb:
        case OP_vpmovusdb:
        case OP_vpmovqb:
        case OP_vpmovsqb:
        case OP_vpmovusqb:
        case OP_vpmovsxbw:
        case OP_vpmovsxbd:
        case OP_vpmovsxbq:
        case OP_vpmovzxbw:
        case OP_vpmovzxbd:
        case OP_vpmovzxbq:
            return 1;
        case OP_vmovdqu16:
        case OP_vpcompressw:
        case OP_vpexpandw:
        case OP_vpmovdw:
        case OP_vpmovsdw:
        case OP_vpmovusdw:
        case OP_vpmovqw:
        case OP_vpmovsqw:
        case OP_vpmovusqw:
        case OP_vpmovsxwd:
        case OP_vpmovsxwq:
        case OP_vpmovzxwd:
        case OP_vpmovzxwq:
        case OP_vcvtph2ps:
        case OP_vcvtps2ph:
            return 2;
        default:
            break;
    }
    const byte* const bytes = instr_get_raw_bits(instruction);
    const int length = bytes == nullptr ? 0 : instr_length(dr_get_current_drcontext(), instruction);
    const byte* evex = std::find(bytes, bytes + length, byte{0x62});
    return evex + 2 < bytes + length && (evex[2] & 0x80) != 0 ? 8 : 4;
}

void masked_by_bits(instr_t* instruction, reg_id_t mask, const dr_mcontext_t& registers,
                    const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const unsigned bytes = masked_element(instruction);
    const unsigned whole = bytes_of(memory->operand);
    const std::uint64_t address = address_of(memory->operand, registers);
    const unsigned count = std::min(64u, std::max(whole / bytes, 1u));
    std::uint64_t bits = mask_value(mask, registers);
    if (whole <= bytes) {  // one element, for all
        if (bits != 0) emit({address, memory->store, whole});
        return;
    }
    if (count < 64) bits &= (std::uint64_t{1} << count) - 1;
    if (is_compressed(instr_get_opcode(instruction))) {
        const int moved = std::popcount(bits);
        bits = moved == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << moved) - 1;
    }
    for (; bits != 0; bits &= bits - 1) {
        const auto i = static_cast<std::uint64_t>(std::countr_zero(bits));
        emit({address + i * bytes, memory->store, bytes});
    }
}

// The parts of the area that the mask in edx:eax asks for, as the processor lays them out.
void save_area(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const int opcode = instr_get_opcode(instruction);
    const bool compact = opcode == OP_xsavec32 || opcode == OP_xsavec64;
    const std::uint64_t address = address_of(memory->operand, registers);
    const auto area = [&](std::uint64_t from, std::uint64_t bytes) {
        for (std::uint64_t at = 0; at < bytes; at += 8)
            emit({address + from + at, memory->store,
                  static_cast<unsigned>(std::min<std::uint64_t>(bytes - at, 8))});
    };
    std::uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const std::uint64_t wanted =
        ((registers.xdx << 32) | (registers.xax & 0xffffffff)) & (std::uint64_t{high} << 32 | low);
    if (wanted & 1) area(0, 160);    // x87
    if (wanted & 2) area(160, 256);  // the 16 registers of SSE
    area(512, 64);                   // the header
    std::uint64_t next = 576;
    for (unsigned part = 2; part < 63; ++part) {
        if ((wanted >> part & 1) == 0) continue;
        std::uint32_t bytes = 0, offset = 0, flags = 0, unused = 0;
        __cpuid_count(0xd, part, bytes, offset, flags, unused);
        if (compact && (flags & 2) != 0) next = (next + 63) & ~std::uint64_t{63};
        area(compact ? next : offset, bytes);
        next += bytes;
    }
}

std::uint64_t read_element(std::uint64_t address, unsigned bytes) {
    std::uint64_t value = 0;
    std::size_t read = 0;
    dr_safe_read(reinterpret_cast<void*>(address), bytes, &value, &read);
    return value;
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

void irregular_accesses(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    if (is_string_operation(instruction)) return string_operation(instruction, registers, emit);
    if (instr_is_gather(instruction) || instr_is_scatter(instruction))
        return gather_or_scatter(instruction, registers, emit);
    switch (instr_get_opcode(instruction)) {
        case OP_maskmovq:  // of MMX, whose registers are not at hand: the whole of it
            return emit({registers.xdi, true, 8});
        case OP_maskmovdqu:
        case OP_vmaskmovdqu:
            return masked_by_vector(instruction, 1, 1, registers, emit);
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
    if (const auto mask = mask_register(instruction)) {
        return masked_by_bits(instruction, *mask, registers, emit);
    }
    save_area(instruction, registers, emit);
}

}  // namespace pagelens
