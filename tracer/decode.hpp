// Decodes what the tracer needs to know of an x86-64 instruction, when it is translated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

struct Instruction {
    // It makes exactly one memory callback each time it runs. Only for common forms, where it is
    // certain: vector accesses come in pieces of 8 bytes, read-modify-writes make two.
    bool one_access = false;
    bool store = false;     // what that access is
    std::uint8_t size = 8;  // and its bytes at most: 1, 4 or 8
    // It makes none, for certain. A callback on such an instruction is never called, but where QEMU
    // calls a helper for the instruction (floating point, division, flags) it costs time even so.
    bool no_access = false;
    // It reads `size` bytes, 4 or 8, where QEMU 7.2 reads 16: that is two callbacks.
    bool half_read = false;
    bool non_temporal_store = false;
    // A string instruction with a rep prefix: QEMU executes it anew for each of its elements.
    bool repeated_string = false;
    bool avx512 = false;  // no QEMU up to 8.2 executes it
};

namespace decode_detail {

// clang-format off: tables

// Opcodes of the one-byte map whose memory operand is one load or one store.
constexpr bool one_access_primary(std::uint8_t opcode, unsigned modrm_reg) {
    switch (opcode) {
        case 0x02: case 0x03: case 0x0a: case 0x0b: case 0x12: case 0x13: case 0x1a: case 0x1b:
        case 0x22: case 0x23: case 0x2a: case 0x2b: case 0x32: case 0x33:  // op reg, mem
        case 0x38: case 0x39: case 0x3a: case 0x3b:                        // cmp
        case 0x63: case 0x69: case 0x6b:                                   // movsxd, imul
        case 0x84: case 0x85: case 0x88: case 0x89: case 0x8a: case 0x8b:  // test, mov
        case 0xc6: case 0xc7:                                              // mov mem, imm
            return true;
        case 0x80: case 0x81: case 0x83: return modrm_reg == 7;  // cmp mem, imm
        case 0xf6: case 0xf7: return modrm_reg != 2 && modrm_reg != 3;  // not not and neg
        default: return false;
    }
}

// Whether the instruction stores.
constexpr bool stores_primary(std::uint8_t opcode) {
    return opcode == 0x88 || opcode == 0x89 || opcode == 0xc6 || opcode == 0xc7;
}

constexpr bool is_push(std::uint8_t opcode) { return opcode >= 0x50 && opcode <= 0x57; }

constexpr bool is_pop_or_ret(std::uint8_t opcode) {
    return (opcode >= 0x58 && opcode <= 0x5f) || opcode == 0xc3;
}

// Bytes of the operand, at most. Of the one-byte map's those with one byte are the even ones, but for
// movsxd and imul (odd all the same); movsxd widens 4 bytes.
constexpr std::uint8_t size_primary(std::uint8_t opcode, bool wide) {
    return opcode % 2 == 0 ? 1 : wide && opcode != 0x63 ? 8 : 4;
}

// The size for an opcode of the 0f map with prefix f3 (single precision) or f2 (double), and for
// others.
constexpr std::uint8_t size_0f_scalar(std::uint8_t opcode, bool wide, bool single) {
    if (opcode == 0xe6) return 8;             // cvtdq2pd: two of 4 bytes
    if (opcode == 0x2a) return wide ? 8 : 4;  // cvtsi2sd: an integer
    return single ? 4 : 8;
}
constexpr std::uint8_t size_0f_integer(std::uint8_t opcode, bool wide) {
    if (opcode == 0xb6 || opcode == 0xbe) return 1;  // movzb, movsb
    if (opcode == 0xb7 || opcode == 0xbf) return 4;  // movzw, movsw: 2, which is less
    return wide ? 8 : 4;
}

// Opcodes of the 0f map: integer loads, and with a scalar prefix (f2, f3) scalar floating point.
constexpr bool one_access_0f(std::uint8_t opcode, bool scalar) {
    switch (opcode) {
        case 0xaf: case 0xb6: case 0xb7: case 0xbe: case 0xbf: return !scalar;
        case 0x10: case 0x11: case 0x2a: case 0x51: case 0x58: case 0x59: case 0x5a: case 0x5c:
        case 0x5d: case 0x5e: case 0x5f:
            return scalar;
        default: return opcode >= 0x40 && opcode <= 0x4f && !scalar;  // cmov
    }
}

// Opcodes of the one-byte map that touch no memory when their operand is a register.
constexpr bool operand_only_primary(std::uint8_t opcode) {
    switch (opcode) {
        case 0x63: case 0x69: case 0x6b: case 0x80: case 0x81: case 0x83: case 0xc0: case 0xc1:
        case 0xf6: case 0xf7:
            return true;
        default:
            return (opcode < 0x40 && opcode % 8 < 4) || (opcode >= 0x84 && opcode <= 0x8b) ||
                   (opcode >= 0xd0 && opcode <= 0xd3);
    }
}

// The same of the 0f map: moves, arithmetic, comparisons; maskmovdqu (f7) stores at (%rdi).
constexpr bool operand_only_0f(std::uint8_t opcode) {
    switch (opcode) {
        case 0xaf: case 0xb6: case 0xb7: case 0xbe: case 0xbf: case 0xc2: case 0xf7:
            return opcode != 0xf7;
        default:
            return (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x28 && opcode <= 0x2f) ||
                   (opcode >= 0x40 && opcode <= 0x76) || (opcode >= 0x7c && opcode <= 0x7f) ||
                   (opcode >= 0xc4 && opcode <= 0xc6) || (opcode >= 0xd0 && opcode <= 0xfe);
    }
}

// clang-format on

// movs, cmps, stos, lods and scas.
constexpr bool is_string(std::uint8_t opcode) {
    return (opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf);
}

// Branches to a constant, and lea.
constexpr bool touches_nothing(std::uint8_t opcode) {
    return (opcode >= 0x70 && opcode <= 0x7f) || opcode == 0xe9 || opcode == 0xeb || opcode == 0x8d;
}

// vfmadd132ss and its like, with one element of 4 or 8 bytes.
constexpr bool is_scalar_fma(std::uint8_t opcode) {
    return opcode >= 0x99 && opcode <= 0xbf && opcode % 2 == 1 && opcode % 16 >= 9;
}

// AVX-512's moves and operations on mask registers are encoded by VEX.
constexpr bool is_mask_instruction(std::uint8_t opcode) {
    return (opcode >= 0x41 && opcode <= 0x4b) || (opcode >= 0x90 && opcode <= 0x93) ||
           opcode == 0x98 || opcode == 0x99;
}

}  // namespace decode_detail

inline Instruction decode(std::span<const std::uint8_t> bytes) {
    using namespace decode_detail;
    const auto at = [bytes](std::size_t i) {
        return i < bytes.size() ? bytes[i] : std::uint8_t{0x90};
    };
    const auto in_memory = [&at](std::size_t modrm) { return at(modrm) >> 6 != 3; };

    Instruction result;
    std::size_t i = 0;
    bool operand_size = false;
    std::uint8_t repeat = 0;
    for (;; ++i) {
        const std::uint8_t byte = at(i);
        if (byte == 0xf2 || byte == 0xf3) {
            repeat = byte;
        } else if (byte == 0x66) {
            operand_size = true;
        } else if (byte != 0x64 && byte != 0x65 && byte != 0x67 && byte != 0x2e && byte != 0x3e) {
            break;
        }
    }
    const bool wide = (at(i) & 0xf8) == 0x48;  // REX.W
    if ((at(i) & 0xf0) == 0x40) ++i;           // REX

    if (at(i) == 0x62) {  // EVEX
        result.avx512 = true;
    } else if (at(i) == 0xc4 || at(i) == 0xc5) {  // VEX
        const bool three = at(i) == 0xc4;
        const unsigned map = three ? at(i + 1) & 31 : 1;
        const unsigned prefix = at(i + (three ? 2 : 1)) & 3;  // none, 66, f3, f2
        const std::uint8_t opcode = at(i + (three ? 3 : 2));
        const bool memory = in_memory(i + (three ? 4 : 3));
        result.no_access = !memory && !(map == 1 && opcode == 0xf7);
        const bool wide_vector = (at(i + (three ? 2 : 1)) & 4) != 0;
        result.half_read = memory && ((map == 2 && prefix == 1 && is_scalar_fma(opcode)) ||
                                      (map == 1 && prefix == 2 && opcode == 0xe6 && !wide_vector));
        const bool wide_operand = three && (at(i + 2) & 0x80) != 0;  // VEX.W
        if (map == 2 && !wide_operand) result.size = 4;
        if (map != 1) return result;
        result.avx512 = is_mask_instruction(opcode);
        result.non_temporal_store =
            memory && ((opcode == 0x2b && prefix <= 1) || (opcode == 0xe7 && prefix == 1));
        result.one_access = memory && prefix >= 2 && one_access_0f(opcode, true);
        result.store = opcode == 0x11;
        if (prefix >= 2) result.size = size_0f_scalar(opcode, wide_operand, prefix == 2);
    } else if (at(i) == 0x0f) {
        const std::uint8_t opcode = at(i + 1);
        const bool longer = opcode == 0x38 || opcode == 0x3a;  // an opcode of three bytes
        if (!in_memory(i + (longer ? 3 : 2))) {
            result.no_access = longer || operand_only_0f(opcode);
            return result;
        }
        result.non_temporal_store = (opcode == 0xc3 && !operand_size && repeat == 0) ||  // movnti
                                    opcode == 0x2b ||                 // movntps, -pd, -ss, -sd
                                    (opcode == 0xe7 && repeat == 0);  // movntq, movntdq
        result.one_access = one_access_0f(opcode, repeat != 0);
        result.store = repeat != 0 && opcode == 0x11;
        result.half_read = repeat == 0xf3 && opcode == 0xe6;  // cvtdq2pd
        result.size = repeat != 0 ? size_0f_scalar(opcode, wide, repeat == 0xf3)
                                  : size_0f_integer(opcode, wide);
    } else {
        result.repeated_string = repeat != 0 && is_string(at(i));
        result.no_access =
            touches_nothing(at(i)) || (!in_memory(i + 1) && operand_only_primary(at(i)));
        const bool stack = is_push(at(i)) || is_pop_or_ret(at(i));
        result.one_access =
            stack || (in_memory(i + 1) && one_access_primary(at(i), at(i + 1) >> 3 & 7));
        result.store = is_push(at(i)) || stores_primary(at(i));
        if (!stack) result.size = size_primary(at(i), wide);
    }
    return result;
}

}  // namespace pagelens
