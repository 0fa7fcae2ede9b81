// The code that works through a loop, around that of an iteration: see recorded_block.hpp for what
// is recorded of it.
//
// As long as all accesses stay in their lines, and the strip hides them, an iteration changes
// counts alone, and the times of the lines, which the next iteration sets again. So all of these
// iterations but the last one are left out. Whether the strip hides them shows in that last one,
// because the strip is then as it was before the first one. If it does not, they are taken back,
// and no more of this run are left out.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/address/units.hpp"
#include "tracer/dynamorio/drain_assembler.hpp"
#include "tracer/dynamorio/drain_memory.hpp"

namespace pagelens {

class DrainLoop {
  public:
    DrainLoop(DrainAssembler& code, std::uint64_t number, const RecordedBlock& loop)
        : code_(code), number_(number), loop_(loop), iteration_(code.label()), end_(code.label()) {}

    // The code of an iteration comes between `begin` and `end`.
    void begin() {
        const auto steady = static_cast<int>(loop_.steady_words());
        for (int i = 0; i < steady; ++i) {
            code_.load(DR_REG_RAX, A::memory(at_register, 8 * (1 + i)));
            code_.store_to(A::steady_value(i), DR_REG_RAX);
        }
        code_.add_constant(at_register, 8 * (1 + steady));
        if (loop_.counts()) {
            count_iterations();
            code_.store_to(left(), DR_REG_RAX);
            if (loop_.leaves_out())
                code_.add(INSTR_CREATE_mov_st(code_.context(), left_out(), OPND_CREATE_INT32(0)));
        } else {
            jump_if_next_is_iteration(OP_jne, end_);
        }
        code_.add(iteration_);
    }

    void end() {
        change_steady_words();
        if (loop_.leaves_out()) {
            end_iteration(OP_je, end_);
            leave_out();
        } else if (loop_.counts()) {
            end_iteration(OP_jne, iteration_);
        } else {
            next_loop_word();
            jump_if_next_is_iteration(OP_je, iteration_);
        }
        code_.add(end_);
        if (loop_.counts()) next_loop_word();
    }

  private:
    using A = DrainAssembler;
    static constexpr auto line = static_cast<int>(line_bytes);

    static opnd_t of_loop(std::size_t offset) {
        return A::memory(recording_register, static_cast<int>(offset));
    }
    static opnd_t left() { return of_loop(offsetof(DrainMemory, iterations_left)); }
    static opnd_t left_out() { return of_loop(offsetof(DrainMemory, iterations_left_out)); }

    void next_loop_word() {
        code_.add_constant(at_register, 8 * static_cast<int>(loop_.loop_words()));
    }
    void jump_if_next_is_iteration(int opcode, instr_t* to) {
        code_.compare(OPND_CREATE_MEM32(at_register, 4),
                      OPND_CREATE_INT32(static_cast<int>(loop_tag(number_))));
        code_.jump_if(opcode, to);
    }
    void end_iteration(int opcode, instr_t* to) {
        code_.add(INSTR_CREATE_dec(code_.context(), left()));
        code_.jump_if(opcode, to);
    }

    // Puts the number of iterations into rax.
    void count_iterations() {
        const opnd_t rax = A::reg(DR_REG_RAX);
        if (loop_.counter == no_word) {
            code_.set(DR_REG_RAX, loop_word(number_));
            return code_.subtract_from(rax, A::memory(at_register, 0));
        }
        code_.load(DR_REG_RAX, A::memory(at_register, 8));  // the latest value
        code_.subtract_from(rax, A::steady_value(loop_.counter));
        const std::int64_t stride = loop_.strides[loop_.counter];
        const auto size = static_cast<std::uint64_t>(stride < 0 ? -stride : stride);
        if (std::has_single_bit(size)) {
            code_.add(
                INSTR_CREATE_sar(code_.context(), rax, OPND_CREATE_INT8(std::countr_zero(size))));
            if (stride < 0) code_.add(INSTR_CREATE_neg(code_.context(), rax));
        } else {
            const opnd_t rdx = A::reg(DR_REG_RDX), rcx = A::reg(DR_REG_RCX);
            code_.set(DR_REG_RCX, static_cast<std::uint64_t>(stride));
            code_.add(instr_create_1dst_1src(code_.context(), OP_cdq, rdx, rax));  // to 128 bits
            code_.add(instr_create_2dst_3src(code_.context(), OP_idiv, rdx, rax, rcx, rdx, rax));
        }
        code_.add_constant(DR_REG_RAX, 1);
    }

    template <class Change>
    void for_changing_words(Change change) {
        for (std::size_t i = 0; i < loop_.steady_words(); ++i) {
            if (loop_.strides[i] != 0 && i != loop_.counter)
                change(A::steady_value(static_cast<int>(i)), loop_.strides[i]);
        }
    }
    void change_steady_words() {
        for_changing_words([this](opnd_t value, std::int64_t stride) {
            if (const auto small = static_cast<std::int32_t>(stride); small == stride) {
                return code_.add_to(value, OPND_CREATE_INT32(small));
            }
            code_.set(DR_REG_RAX, static_cast<std::uint64_t>(stride));
            code_.add_to(value, A::reg(DR_REG_RAX));
        });
    }

    void leave_out() {
        instr_t* const is_hidden = code_.label();
        code_.compare(left_out(), OPND_CREATE_INT8(0));
        code_.jump_if(OP_jl, iteration_);
        find_iterations_to_leave_out();
        code_.store_to(left_out(), DR_REG_RAX);
        let_pass();

        code_.add_constant(clock_register, loop_.certain);
        code_.add_constant(left_register, -int{loop_.instructions});
        std::vector<DrainPass> passes;
        for (const RecordedAccess& access : loop_.accesses)
            passes.push_back(code_.test(access, loop_));
        change_steady_words();
        end_iteration(OP_jne, iteration_);
        code_.jump(is_hidden);

        for (const DrainPass& pass : passes) code_.add(pass.from);
        code_.add_constant(clock_register, -int{loop_.certain});
        code_.add_constant(left_register, loop_.instructions);
        code_.add(INSTR_CREATE_neg(code_.context(), left_out()));
        code_.load(DR_REG_RAX, left_out());
        let_pass();
        code_.jump(iteration_);
        code_.add(is_hidden);
    }

    // Puts into rax how many iterations to leave out. Goes to the next iteration if there are none.
    // They are so few that the tracer does not look at the thread meanwhile.
    void find_iterations_to_leave_out() {
        code_.compare(A::reg(left_register), OPND_CREATE_INT32(line * loop_.instructions));
        code_.jump_if(OP_jl, iteration_);
        code_.set(DR_REG_RAX, line_bytes);
        for (const RecordedAccess& access : loop_.accesses) {
            if (access.word == no_word || loop_.strides[access.word] == 0) continue;
            find_iterations_in_line(access, static_cast<int>(loop_.strides[access.word]));
            at_most(DR_REG_EAX, DR_REG_ECX);
        }
        code_.load(DR_REG_RCX, left());
        at_most(DR_REG_RAX, DR_REG_RCX);
        code_.add_constant(DR_REG_RAX, -1);
        code_.jump_if(OP_jle, iteration_);
    }
    // Puts into ecx how many iterations more an access stays in the line of the last one. Goes to
    // the next iteration if that access was not in one line.
    void find_iterations_in_line(const RecordedAccess& access, int stride) {
        const opnd_t ecx = A::reg(DR_REG_ECX);
        const auto last = static_cast<int>(access.displacement % line_bytes) - stride;
        code_.load(DR_REG_RCX, A::steady_value(access.word));
        code_.add_constant(DR_REG_ECX, last);
        code_.add(INSTR_CREATE_and(code_.context(), ecx, OPND_CREATE_INT32(line - 1)));
        code_.subtract_from(ecx, OPND_CREATE_INT32(line - access.bytes));
        code_.jump_if(OP_jnle, iteration_);
        if (stride > 0) {
            code_.add(INSTR_CREATE_neg(code_.context(), ecx));
        } else {
            code_.add_constant(DR_REG_ECX, line - access.bytes);
        }
        // Divided by the stride: n * ceil(2^16 / stride) / 2^16 is exact for n of less than a line.
        const int by = stride > 0 ? stride : -stride;
        times(DR_REG_ECX, DR_REG_ECX, ((1 << 16) + by - 1) / by);
        code_.add(INSTR_CREATE_shr(code_.context(), ecx, OPND_CREATE_INT8(16)));
    }
    void at_most(reg_id_t value, reg_id_t limit) {
        code_.compare(A::reg(value), A::reg(limit));
        code_.add(instr_set_predicate(
            instr_create_1dst_1src(code_.context(), OP_cmovnbe, A::reg(value), A::reg(limit)),
            DR_PRED_NBE));
    }
    void times(reg_id_t to, reg_id_t from, int factor) {
        code_.add(INSTR_CREATE_imul_imm(code_.context(), A::reg(to), A::reg(from),
                                        OPND_CREATE_INT32(factor)));
    }

    // Lets as many iterations pass as rax says, which may be negative.
    void let_pass() {
        const opnd_t rcx = A::reg(DR_REG_RCX);
        code_.subtract_from(left(), A::reg(DR_REG_RAX));
        times(DR_REG_RCX, DR_REG_RAX, loop_.certain);
        code_.add_to(A::reg(clock_register), rcx);
        times(DR_REG_RCX, DR_REG_RAX, loop_.instructions);
        code_.subtract_from(A::reg(left_register), rcx);
        for_changing_words([&](opnd_t value, std::int64_t stride) {
            times(DR_REG_RCX, DR_REG_RAX, static_cast<int>(stride));
            code_.add_to(value, rcx);
        });
    }

    DrainAssembler& code_;
    const std::uint64_t number_;
    const RecordedBlock& loop_;
    instr_t* const iteration_;
    instr_t* const end_;
};

}  // namespace pagelens
