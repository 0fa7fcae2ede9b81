// Instructions of the code of drain_code.hpp in the making.
#pragma once

#include <dr_api.h>

#include <cstddef>
#include <cstdint>

#include "core/address/units.hpp"
#include "tracer/dynamorio/drain_memory.hpp"
#include "tracer/dynamorio/recorded_block.hpp"
#include "tracer/vcpu.hpp"

namespace pagelens {

// The registers that hold the state of a drain. Functions that the code calls preserve them.
inline constexpr reg_id_t vcpu_register = DR_REG_RBX, vcpu_register_low = DR_REG_EBX;
inline constexpr reg_id_t recording_register = DR_REG_RBP;
inline constexpr reg_id_t at_register = DR_REG_R12, table_register = DR_REG_R13;
inline constexpr reg_id_t clock_register = DR_REG_R14;  // Strip's, with all accesses of the block
inline constexpr reg_id_t left_register = DR_REG_R15;   // Vcpu::left

constexpr int in_vcpu(std::size_t offset) { return static_cast<int>(offset); }
inline constexpr int clock_offset = in_vcpu(offsetof(Vcpu, strip) + StripLayout::clock);
inline constexpr int left_offset = in_vcpu(offsetof(Vcpu, left));

// Where an access that is not hidden leaves the code of its block, with its address in rax, and
// where it comes back.
struct DrainPass {
    const RecordedAccess* access;
    instr_t* from;
    instr_t* back;
    int place;  // where its place is remembered, or no_place
};
inline constexpr int no_place = -1;

// A list of instructions in the making.
class DrainAssembler {
  public:
    DrainAssembler() : list_(instrlist_create(context_)) {}
    ~DrainAssembler() { instrlist_clear_and_destroy(context_, list_); }
    DrainAssembler(const DrainAssembler&) = delete;
    DrainAssembler& operator=(const DrainAssembler&) = delete;

    void add(instr_t* instruction) { instrlist_append(list_, instruction); }
    void* context() const { return context_; }

    static opnd_t reg(reg_id_t reg) { return opnd_create_reg(reg); }
    static opnd_t memory(reg_id_t base, int displacement) {
        return OPND_CREATE_MEMPTR(base, displacement);
    }
    instr_t* label() { return INSTR_CREATE_label(context_); }

    void load(reg_id_t to, opnd_t from) { add(INSTR_CREATE_mov_ld(context_, reg(to), from)); }
    void store_to(opnd_t to, reg_id_t from) { add(INSTR_CREATE_mov_st(context_, to, reg(from))); }
    void copy(reg_id_t to, reg_id_t from) { store_to(reg(to), from); }
    void set(reg_id_t to, std::uint64_t value) {
        add(INSTR_CREATE_mov_imm(context_, reg(to),
                                 OPND_CREATE_INT64(static_cast<std::int64_t>(value))));
    }
    void compare(opnd_t one, opnd_t other) { add(INSTR_CREATE_cmp(context_, one, other)); }
    void add_to(opnd_t to, opnd_t value) { add(INSTR_CREATE_add(context_, to, value)); }
    void subtract_from(opnd_t from, opnd_t value) { add(INSTR_CREATE_sub(context_, from, value)); }
    void add_constant(reg_id_t to, int value) {
        if (value != 0) add(INSTR_CREATE_add(context_, reg(to), OPND_CREATE_INT32(value)));
    }
    void jump_if(int opcode, instr_t* to) {
        add(INSTR_CREATE_jcc(context_, opcode, opnd_create_instr(to)));
    }
    void jump(instr_t* to) { add(INSTR_CREATE_jmp(context_, opnd_create_instr(to))); }
    void call(const void* routine) {
        add(INSTR_CREATE_call(context_,
                              opnd_create_pc(static_cast<app_pc>(const_cast<void*>(routine)))));
    }

    // Goes on with the block whose number is at `at_register`.
    void next_block() {
        load(DR_REG_RAX, memory(at_register, 0));
        add(INSTR_CREATE_jmp_ind(context_,
                                 opnd_create_base_disp(table_register, DR_REG_RAX, 8, 0, OPSZ_8)));
    }
    void save_counts() {
        store_to(memory(vcpu_register, clock_offset), clock_register);
        store_to(memory(vcpu_register, left_offset), left_register);
    }
    void load_counts() {
        load(clock_register, memory(vcpu_register, clock_offset));
        load(left_register, memory(vcpu_register, left_offset));
    }
    // Calls a function with the counts in memory, where it may change them.
    void call_function(std::uint64_t function) {
        save_counts();
        set(DR_REG_RAX, function);
        add(INSTR_CREATE_call_ind(context_, reg(DR_REG_RAX)));
        load_counts();
    }

    // A steady word of the loop that is worked through.
    static opnd_t steady_value(int word) {
        return memory(recording_register,
                      static_cast<int>(offsetof(DrainMemory, next_values)) + 8 * word);
    }

    // Puts the address of an access into rax.
    void address(const RecordedAccess& access, const RecordedBlock& block) {
        const auto steady = static_cast<int>(block.steady_words());
        const opnd_t word = access.word < steady
                                ? steady_value(access.word)
                                : memory(at_register, 8 * (1 + access.word - steady));
        const auto displacement = static_cast<std::int64_t>(access.displacement);
        if (access.word == no_word) {
            set(DR_REG_RAX, access.displacement);
        } else if (displacement == static_cast<std::int32_t>(displacement)) {
            load(DR_REG_RAX, word);
            add_constant(DR_REG_RAX, static_cast<std::int32_t>(displacement));
        } else {
            set(DR_REG_RAX, access.displacement);
            add(INSTR_CREATE_add(context_, reg(DR_REG_RAX), word));
        }
    }

    // Puts the address of an access into rax, and goes to `from` if the strip does not hide it.
    DrainPass test(const RecordedAccess& access, const RecordedBlock& block) {
        const DrainPass pass{&access, label(), label(), no_place};
        address(access, block);
        test_both_ways(access, pass.from);
        add(pass.back);
        return pass;
    }

    // Does the same, but looks only where the access's line was the last time.
    DrainPass test_place(const RecordedAccess& access, const RecordedBlock& block, int place) {
        const DrainPass pass{&access, label(), label(), place};
        const bool store = access.kind == RecordedAccess::Kind::store;
        add(INSTR_CREATE_movzx(context_, reg(DR_REG_ECX), place_of(place)));
        address(access, block);
        copy(DR_REG_RDX, DR_REG_RAX);
        subtract_from(reg(DR_REG_RDX), in_strip(DR_REG_RCX, sets + line_of(store, 0)));
        compare(reg(DR_REG_RDX), reach_of(access));
        jump_if(OP_jnbe, pass.from);
        set_time(access);
        store_to(in_strip(DR_REG_RCX, sets + used), DR_REG_RSI);
        add(pass.back);
        return pass;
    }

    // What comes after `from` then, where rax has the address. Goes on behind this code if the
    // strip does not hide the access.
    void test_other_places(const DrainPass& pass) {
        instr_t* const passes = label();
        test_both_ways(*pass.access, passes);
        add(INSTR_CREATE_lea(context_, reg(DR_REG_RCX),
                             opnd_create_base_disp(DR_REG_RCX, DR_REG_RDX, 8, 0, OPSZ_lea)));
        subtract_from(reg(DR_REG_ECX), reg(vcpu_register_low));
        store_to(place_of(pass.place), DR_REG_CX);
        jump(pass.back);
        add(passes);
    }
    // Remembers the place, which is in ax.
    void remember_place(const DrainPass& pass) { store_to(place_of(pass.place), DR_REG_AX); }

    // Returns the end of the code, or null if it does not fit.
    byte* encode(byte* at, byte* end) {
        return instrlist_encode_to_copy(context_, list_, at, at, end, true);
    }

  private:
    static constexpr int sets = in_vcpu(offsetof(Vcpu, strip) + StripLayout::sets);
    static constexpr int used = in_vcpu(StripLayout::used);
    static constexpr int line_of(bool store, unsigned way) {
        return in_vcpu(StripLayout::line(store, way));
    }
    static opnd_t reach_of(const RecordedAccess& access) {
        return OPND_CREATE_INT8(static_cast<int>(line_bytes) - access.bytes);
    }
    static opnd_t in_strip(reg_id_t place, int displacement) {
        return opnd_create_base_disp(vcpu_register, place, 1, displacement, OPSZ_8);
    }
    static opnd_t place_of(int place) {
        const auto offset = static_cast<int>(offsetof(DrainMemory, places));
        return OPND_CREATE_MEM16(recording_register, offset + 2 * place);
    }
    // Puts the time of an access into rsi.
    void set_time(const RecordedAccess& access) {
        const auto later = static_cast<int>(access.place.later());
        add(INSTR_CREATE_lea(context_, reg(DR_REG_RSI),
                             OPND_CREATE_MEM_lea(clock_register, DR_REG_NULL, 0, -later)));
    }

    // Does what Strip::hides does with the address in rax. The set is in rcx then, its way in rdx.
    void test_both_ways(const RecordedAccess& access, instr_t* passes) {
        const bool store = access.kind == RecordedAccess::Kind::store;
        copy(DR_REG_ECX, DR_REG_EAX);
        add(INSTR_CREATE_and(context_, reg(DR_REG_ECX), OPND_CREATE_INT32(StripLayout::set_mask)));
        add_to(reg(DR_REG_RCX), reg(vcpu_register));
        const auto is_within = [&](unsigned way, reg_id_t offset, reg_id_t result) {
            copy(offset, DR_REG_RAX);
            subtract_from(reg(offset), memory(DR_REG_RCX, sets + line_of(store, way)));
            compare(reg(offset), reach_of(access));
            add(INSTR_CREATE_setcc(context_, OP_setbe, reg(result)));
        };
        is_within(1, DR_REG_RDX, DR_REG_DL);
        is_within(0, DR_REG_RSI, DR_REG_SIL);
        add(INSTR_CREATE_or(context_, reg(DR_REG_SIL), reg(DR_REG_DL)));
        jump_if(OP_je, passes);
        add(INSTR_CREATE_movzx(context_, reg(DR_REG_EDX), reg(DR_REG_DL)));
        set_time(access);
        store_to(opnd_create_base_disp(DR_REG_RCX, DR_REG_RDX, 8, sets + used, OPSZ_8), DR_REG_RSI);
    }

    void* const context_ = dr_get_current_drcontext();
    instrlist_t* const list_;
};

}  // namespace pagelens
