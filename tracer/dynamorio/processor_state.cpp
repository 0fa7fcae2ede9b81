#include "tracer/dynamorio/processor_state.hpp"

#include <cpuid.h>

#include <algorithm>
#include <iterator>

#include "tracer/dynamorio/operands.hpp"

namespace pagelens {

namespace {

std::uint64_t extended_control(std::uint32_t which) {
    std::uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
    return std::uint64_t{high} << 32 | low;
}

// Whether a vector register is not 0 in these bytes.
bool is_used(const dr_zmm_t& vector, std::size_t from, std::size_t to) {
    const auto* const bytes = reinterpret_cast<const byte*>(&vector);
    return std::any_of(bytes + from, bytes + to, [](byte value) { return value != 0; });
}

// The parts of AVX and AVX-512 that are not 0: the upper halves of YMM0-15, masks, the upper halves
// of ZMM0-15, and ZMM16-31.
std::uint64_t vectors_in_use(const dr_mcontext_t& registers) {
    std::uint64_t parts = 0;
    for (const dr_opmask_t mask : registers.opmask) parts |= std::uint64_t{mask != 0} << 5;
    for (unsigned number = 0; number < std::size(registers.simd); ++number) {
        const dr_zmm_t& vector = registers.simd[number];
        if (number >= 16) {
            parts |= std::uint64_t{is_used(vector, 0, 64)} << 7;
        } else {
            parts |= std::uint64_t{is_used(vector, 16, 32)} << 2;
            parts |= std::uint64_t{is_used(vector, 32, 64)} << 6;
        }
    }
    return parts;
}

// The parts of the processor's state that are not as at its start. The processor itself takes
// vector registers to be in use once the tracer has used them, and the program's values are back.
std::uint64_t parts_in_use(const dr_mcontext_t& registers) {
    std::uint32_t features = 0, unused = 0;
    __cpuid_count(0xd, 1, features, unused, unused, unused);
    const std::uint64_t stated = (features & 4) != 0 ? extended_control(1) : ~std::uint64_t{0};
    constexpr std::uint64_t vectors = 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7;
    return (stated & ~vectors) | vectors_in_use(registers);
}

// Its bytes behind the prefix for short addresses.
const byte* vex_of(instr_t* instruction) {
    const byte* code = instr_get_raw_bits(instruction);
    while (*code == 0x67) ++code;
    return code;
}

}  // namespace

// The parts of the area that the mask in edx:eax asks for, as the processor lays them out. (Intel
// SDM volume 1, 13.4 and 13.7 to 13.10.)
void save_area(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory) return;
    const int opcode = instr_get_opcode(instruction);
    const bool restores = opcode == OP_xrstor32 || opcode == OP_xrstor64;
    const bool saves_all = opcode == OP_xsave32 || opcode == OP_xsave64;
    bool compact = opcode == OP_xsavec32 || opcode == OP_xsavec64;
    const std::uint64_t address = address_of(memory->operand, registers);
    const auto area = [&](std::uint64_t from, std::uint64_t bytes) {
        for (std::uint64_t at = 0; at < bytes; at += 8)
            emit({address + from + at, memory->store,
                  static_cast<unsigned>(std::min<std::uint64_t>(bytes - at, 8))});
    };
    const std::uint64_t wanted =
        ((registers.xdx << 32) | (registers.xax & 0xffffffff)) & extended_control(0);
    std::uint64_t moved = wanted, laid_out = wanted;
    if (restores) {
        moved &= read_element(address + 512, 8);
        laid_out = read_element(address + 520, 8);
        compact = laid_out >> 63 != 0;
    } else if (!saves_all) {
        moved &= parts_in_use(registers);
    }
    if (moved & 1) area(0, 160);    // x87
    if (moved & 2) area(160, 256);  // the 16 registers of SSE
    area(512, 64);                  // the header
    std::uint64_t next = 576;
    for (unsigned part = 2; part < 63; ++part) {
        if (((compact ? laid_out : wanted) >> part & 1) == 0) continue;
        std::uint32_t bytes = 0, offset = 0, flags = 0, unused = 0;
        __cpuid_count(0xd, part, bytes, offset, flags, unused);
        if (compact && (flags & 2) != 0) next = (next + 63) & ~std::uint64_t{63};
        if ((moved >> part & 1) != 0) area(compact ? next : offset, bytes);
        next += bytes;
    }
}
// AMX has VEX's map 2: 49 loads and stores what tiles are like, 4b the rows of a tile.
bool moves_tile(instr_t* instruction) {
    const byte* const code = vex_of(instruction);
    return code[0] == 0xc4 && (code[1] & 0x1f) == 2 && code[3] == 0x4b;
}

// The index register is the distance of a tile's rows. (Intel SDM volume 2, TILELOADD.)
void tile_rows(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const auto memory = memory_of(instruction);
    if (!memory || (extended_control(0) >> 17 & 1) == 0) return;
    struct alignas(64) {
        std::uint8_t palette, first_row, unused[14];
        std::uint16_t row_bytes[16];
        std::uint8_t rows[16];
    } tiles;
    __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x00" ::"a"(&tiles) : "memory");  // sttilecfg
    const unsigned tile = vex_of(instruction)[4] >> 3 & 7;
    const reg_id_t index = opnd_get_index(memory->operand);
    const std::uint64_t stride =
        index == DR_REG_NULL
            ? 0
            : general(index, registers) * static_cast<unsigned>(opnd_get_scale(memory->operand));
    std::uint64_t address =
        address_of(memory->operand, registers) + (tiles.first_row - std::uint64_t{1}) * stride;
    for (unsigned row = tiles.first_row; row < tiles.rows[tile]; ++row, address += stride)
        for (unsigned at = 0; at < tiles.row_bytes[tile]; at += 8)
            emit({address + at, memory->store, std::min(tiles.row_bytes[tile] - at, 8u)});
}

}  // namespace pagelens
