// The operands of instructions, and the registers that they name.
#pragma once

#include <dr_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pagelens {

inline std::uint64_t general(reg_id_t reg, const dr_mcontext_t& registers) {
    if (reg == DR_REG_NULL) return 0;
    return reg_get_value(reg, const_cast<dr_mcontext_t*>(&registers));  // it only reads
}

inline std::uint64_t address_of(opnd_t operand, const dr_mcontext_t& registers) {
    auto* const reads = const_cast<dr_mcontext_t*>(&registers);
    return reinterpret_cast<std::uint64_t>(opnd_compute_address(operand, reads));
}

// The memory operand, and whether it is written.
struct Memory {
    opnd_t operand;
    bool store;
};
inline std::optional<Memory> memory_of(instr_t* instruction) {
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

inline unsigned bytes_of(opnd_t operand) { return opnd_size_in_bytes(opnd_get_size(operand)); }

// An EVEX mask. k0 stands where an instruction has none.
inline std::optional<reg_id_t> mask_register(instr_t* instruction) {
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t operand = instr_get_src(instruction, i);
        if (opnd_is_reg(operand) && opnd_get_reg(operand) > DR_REG_K0 &&
            opnd_get_reg(operand) <= DR_REG_STOP_OPMASK) {
            return opnd_get_reg(operand);
        }
    }
    return std::nullopt;
}

inline std::uint64_t read_element(std::uint64_t address, unsigned bytes) {
    std::uint64_t value = 0;
    std::size_t read = 0;
    dr_safe_read(reinterpret_cast<void*>(address), bytes, &value, &read);
    return value;
}

}  // namespace pagelens
