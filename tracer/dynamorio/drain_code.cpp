#include "tracer/dynamorio/drain_code.hpp"

#include <bit>
#include <cstddef>
#include <vector>

#include "tracer/dynamorio/drain_assembler.hpp"
#include "tracer/dynamorio/drain_loop.hpp"
#include "tracer/meminfo.hpp"

namespace pagelens {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10;

constexpr reg_id_t saved_registers[] = {DR_REG_RBX, DR_REG_RBP, DR_REG_R12,
                                        DR_REG_R13, DR_REG_R14, DR_REG_R15};

template <class Function>
std::uint64_t address_of(Function* function) {
    return reinterpret_cast<std::uint64_t>(function);
}

}  // namespace

DrainCode::DrainCode(Tracer& tracer, const DrainFunctions& functions,
                     std::atomic<const void*>* table, std::uint64_t after)
    : tracer_(tracer), functions_(functions), table_(table), after_(after) {}

// Returns where the code begins, or null if there is no memory for it.
const void* DrainCode::emit(DrainAssembler& code) {
    byte* begin = free_;
    byte* end = begin == nullptr ? nullptr : code.encode(begin, end_);
    if (end == nullptr) {
        begin = static_cast<byte*>(
            dr_nonheap_alloc(chunk_bytes, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC));
        if (begin == nullptr) return nullptr;
        end_ = begin + chunk_bytes;
        end = code.encode(begin, end_);
        if (end == nullptr) end = end_;
    }
    free_ = end;
    return end == end_ ? nullptr : begin;
}

bool DrainCode::install() {
    using A = DrainAssembler;
    A enter;
    for (const reg_id_t reg : saved_registers)
        enter.add(INSTR_CREATE_push(enter.context(), A::reg(reg)));
    enter.add_constant(DR_REG_RSP, -8);  // calls want a multiple of 16
    enter.copy(recording_register, DR_REG_RDI);
    enter.copy(vcpu_register, DR_REG_RSI);
    enter.copy(at_register, DR_REG_RDX);
    enter.copy(table_register, DR_REG_RCX);
    enter.load_counts();
    enter.next_block();
    enter_ = reinterpret_cast<Enter>(const_cast<void*>(emit(enter)));

    A leave;
    leave.save_counts();
    leave.copy(DR_REG_RAX, at_register);
    leave.add_constant(DR_REG_RSP, 8);
    for (unsigned i = std::size(saved_registers); i-- > 0;)
        leave.add(INSTR_CREATE_pop(leave.context(), A::reg(saved_registers[i])));
    leave.add(INSTR_CREATE_ret(leave.context()));
    table_[0] = emit(leave);

    A cold;
    cold.copy(DR_REG_RDI, recording_register);
    cold.copy(DR_REG_RSI, at_register);
    cold.call_function(address_of(functions_.execute));
    cold.copy(at_register, DR_REG_RAX);
    cold.next_block();
    cold_ = emit(cold);

    const std::uint64_t functions[calls] = {
        address_of(functions_.pass_load),   address_of(functions_.pass_store),
        address_of(functions_.pass_pieces), address_of(functions_.other_access),
        address_of(functions_.look),        address_of(functions_.look_in_loop),
        address_of(functions_.branch)};
    for (unsigned i = 0; i < calls; ++i) {
        A code;
        code.add_constant(DR_REG_RSP, -8);
        if (i <= static_cast<unsigned>(Call::store)) {
            code.set(DR_REG_RDI, reinterpret_cast<std::uint64_t>(&tracer_));
            code.copy(DR_REG_RSI, vcpu_register);
        } else {
            code.copy(DR_REG_RDI, recording_register);
            code.copy(DR_REG_RSI, at_register);
        }
        code.call_function(functions[i]);
        code.add_constant(DR_REG_RSP, 8);
        code.add(INSTR_CREATE_ret(code.context()));
        calls_[i] = emit(code);
    }
    return enter_ != nullptr && table_[0] != nullptr && cold_ != nullptr &&
           calls_[calls - 1] != nullptr;
}

// Adds the accesses of one execution of a block.
class DrainCode::Execution {
  public:
    Execution(DrainCode& owner, DrainAssembler& code, const RecordedBlock& block)
        : owner_(owner), code_(code), block_(block), looks_(code.label()), looked_(code.label()) {}

    void add() {
        code_.add_constant(clock_register, block_.certain);
        code_.add(INSTR_CREATE_sub(code_.context(), DrainAssembler::reg(left_register),
                                   OPND_CREATE_INT32(block_.instructions)));
        code_.jump_if(OP_js, looks_);
        code_.add(looked_);
        for (const RecordedAccess& access : block_.accesses) {
            if (access.kind <= RecordedAccess::Kind::store) {
                passes_.push_back(test(access));
            } else {
                code_.set(DR_REG_RCX, reinterpret_cast<std::uint64_t>(&access));
                code_.call(owner_.routine(Call::other));
            }
        }
    }

    // What is not hidden is behind the block, so that what is hidden runs straight on.
    void add_passes() {
        code_.add(looks_);
        code_.set(DR_REG_RCX, reinterpret_cast<std::uint64_t>(&block_));
        code_.call(owner_.routine(block_.loop ? Call::look_in_loop : Call::look));
        code_.jump(looked_);
        for (const DrainPass& pass : passes_) add(pass);
    }

  private:
    // Not where the place has mostly changed: where each iteration has an address of its own, and
    // where those that stay in their lines are left out.
    [[nodiscard]] bool remembers_place(const RecordedAccess& access) const {
        const bool is_own = access.word != no_word && access.word >= block_.steady_words();
        return !block_.loop || !(is_own || block_.leaves_out());
    }
    DrainPass test(const RecordedAccess& access) {
        if (!remembers_place(access)) return code_.test(access, block_);
        return code_.test_place(access, block_, owner_.next_place());
    }

    void add(const DrainPass& pass) {
        const RecordedAccess& access = *pass.access;
        code_.add(pass.from);
        if (pass.place != no_place) code_.test_other_places(pass);
        code_.copy(DR_REG_RDX, DR_REG_RAX);
        if (access.bytes > 8) {
            code_.set(DR_REG_RCX, reinterpret_cast<std::uint64_t>(&access));
            code_.call(owner_.routine(Call::pieces));
        } else {
            code_.set(DR_REG_RCX, load_of(std::bit_ceil(unsigned{access.bytes})));
            code_.set(DR_REG_R8, access.place.word());
            const bool store = access.kind == RecordedAccess::Kind::store;
            code_.call(owner_.routine(store ? Call::store : Call::load));
        }
        if (pass.place != no_place) code_.remember_place(pass);
        code_.jump(pass.back);
    }

    DrainCode& owner_;
    DrainAssembler& code_;
    const RecordedBlock& block_;
    instr_t* const looks_;
    instr_t* const looked_;
    std::vector<DrainPass> passes_;
};

bool DrainCode::make(std::uint64_t number, const RecordedBlock& block) {
    DrainAssembler code;
    Execution execution(*this, code, block);
    if (block.loop) {
        DrainLoop loop(code, number, block);
        loop.begin();
        execution.add();
        loop.end();
    } else {
        execution.add();
        if (block.branch != Branch::none) code.call(routine(Call::branch));
        code.add_constant(at_register, 8 * (1 + block.words));
    }
    code.next_block();
    execution.add_passes();
    const std::lock_guard lock(mutex_);
    const void* const made = emit(code);
    if (made != nullptr) table_[number].store(made, std::memory_order_release);
    return made != nullptr;
}

}  // namespace pagelens
