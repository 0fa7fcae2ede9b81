#include "tracer/translation.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tracer/access_callbacks.hpp"
#include "tracer/control_callbacks.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/shadow_stack.hpp"

namespace pagelens {
namespace {

void on_memory(qemu_plugin_insn* instruction, qemu_plugin_vcpu_mem_cb_t callback,
               void* data = nullptr) {
    qemu_plugin_register_vcpu_mem_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, data);
}

void on_execution(qemu_plugin_insn* instruction, qemu_plugin_vcpu_udata_cb_t callback,
                  void* data = nullptr) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS, data);
}

std::span<const std::uint8_t> bytes_of(const qemu_plugin_insn* instruction) {
    return {static_cast<const std::uint8_t*>(qemu_plugin_insn_data(instruction)),
            qemu_plugin_insn_size(instruction)};
}

void watch_avx512(qemu_plugin_insn* instruction) {
    on_execution(instruction, on_avx512, as_data(qemu_plugin_insn_vaddr(instruction)));
}

void watch_call(qemu_plugin_insn* instruction) {
    void* const return_address =
        as_data(qemu_plugin_insn_vaddr(instruction) + qemu_plugin_insn_size(instruction));
    if (self_test->passed()) return on_memory(instruction, on_call, return_address);
    on_execution(instruction, on_tested_call_begins);
    on_memory(instruction, on_tested_call, return_address);
}

// QEMU executes a block of this one instruction from the second element of a string operation on.
bool is_repeated_string_alone(const qemu_plugin_tb* block) {
    return qemu_plugin_tb_n_insns(block) == 1 &&
           decode(bytes_of(qemu_plugin_tb_get_insn(block, 0))).repeated_string;
}

// The accesses of a block while tracing. Its instructions are counted, and time passes for the
// accesses that it is certain to make, at the first of these, or without one where it begins.
class BlockAccesses {
  public:
    explicit BlockAccesses(qemu_plugin_tb* block) {
        instructions_ = qemu_plugin_tb_n_insns(block);
        std::string code;
        for (std::size_t i = 0; i < instructions_; ++i) {
            const auto bytes = bytes_of(qemu_plugin_tb_get_insn(block, i));
            code.append(bytes.begin(), bytes.end());
            const Instruction decoded = decode(bytes);
            // Calls, returns and doorbells make one access, but have callbacks of their own.
            const bool certain = decoded.one_access && !is_doorbell(bytes.data(), bytes.size()) &&
                                 classify_branch(bytes.data(), bytes.size()) == Branch::none;
            // Half reads are certain too, but do not count for others.
            const bool counted = certain_ > 0 && is_half_read(decoded);
            certain_ += certain || counted;
        }
        const std::uint64_t address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0));
        place_ = AccessPlace(tracer->code().number(address, std::move(code)), instructions_);
        if (certain_ > 0 || is_repeated_string_alone(block)) return;
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, pack(place_));
    }

    // `number`: the instruction's, in the block.
    void watch(qemu_plugin_insn* instruction, std::size_t number, const Instruction& decoded) {
        const bool early = certain_ > 0 && !counted_;
        const auto place = [&] {
            const AccessPlace here = place_.at(number).with_later(later_);
            return pack(early ? here.as_early() : here);
        };
        if (decoded.repeated_string) {
            // `later` is 0: such an instruction ends its block.
            on_execution(instruction, instructions_ == 1 ? on_string_alone : on_string,
                         as_data(qemu_plugin_insn_vaddr(instruction)));
            on_memory(instruction, on_string_access, pack(place_.at(number).as_string()));
        } else if (decoded.non_temporal_store) {
            on_memory(instruction, on_stream_store, place());
        } else if (is_half_read(decoded)) {
            later_ -= counted_;
            on_memory(instruction, half_read_callback(decoded, counted_), place());
        } else if (!decoded.one_access) {
            on_memory(instruction, on_uncertain_access, place());
        } else if (!counted_) {
            counted_ = true;
            later_ = certain_ - 1;
            on_memory(instruction, certain_access_callback(decoded, true),
                      pack(place_.at(number).with_later(later_)));
        } else {
            --later_;
            on_memory(instruction, certain_access_callback(decoded, false), place());
        }
    }

  private:
    static bool is_half_read(const Instruction& decoded) {
        return decoded.half_read && options.wide_reads != 0;
    }

    AccessPlace place_;
    std::size_t instructions_ = 0;
    std::uint64_t certain_ = 0;  // accesses
    bool counted_ = false;
    std::uint64_t later_ = 0;  // certain accesses that are counted and come later
};

void watch_avx512_alone(qemu_plugin_tb* block) {
    for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
        qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
        if (decode(bytes_of(instruction)).avx512) watch_avx512(instruction);
    }
}

}  // namespace

void add_callbacks(qemu_plugin_tb* block) {
    const Stage now = stage;
    // A string operation is counted with the block that it ends.
    if (now != Stage::tracing && !is_repeated_string_alone(block)) {
        qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64,
                                                 &tracer->untraced_instructions,
                                                 qemu_plugin_tb_n_insns(block));
    }
    if (now == Stage::finishing || now == Stage::idle) return watch_avx512_alone(block);

    const auto module =
        tracer->modules().find(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)));
    const bool ours = module && module->role == ModuleRole::hooks;
    std::optional<BlockAccesses> accesses;
    if (now == Stage::tracing && !ours) accesses.emplace(block);
    for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
        qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
        const auto bytes = bytes_of(instruction);
        const Instruction decoded = decode(bytes);
        const Branch branch = classify_branch(bytes.data(), bytes.size());
        if (now == Stage::waiting &&
            qemu_plugin_insn_vaddr(instruction) == tracer->begin_address()) {
            on_execution(instruction, on_begin_function);
        }
        if (decoded.avx512) watch_avx512(instruction);
        if (is_doorbell(bytes.data(), bytes.size())) {
            on_memory(instruction, on_doorbell);
        } else if (branch == Branch::call) {
            watch_call(instruction);
        } else if (branch == Branch::ret) {
            on_memory(instruction, on_return);
        } else if (accesses && !decoded.no_access) {
            accesses->watch(instruction, i, decoded);
        } else if (now == Stage::skipping && !ours && !decoded.no_access) {
            on_memory(instruction, on_skipped_access);
        }
    }
}

}  // namespace pagelens
