#include "tracer/dynamorio/block_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tracer/doorbell.hpp"
#include "tracer/dynamorio/irregular.hpp"
#include "tracer/dynamorio/masked_elements.hpp"
#include "tracer/dynamorio/operands.hpp"
#include "tracer/dynamorio/processor_state.hpp"

namespace pagelens {

namespace {

constexpr std::size_t general_registers = DR_REG_R15 - DR_REG_RAX + 1;

bool is_general(reg_id_t reg) { return reg >= DR_REG_RAX && reg <= DR_REG_R15; }
std::size_t index_of(reg_id_t reg) { return reg - DR_REG_RAX; }

bool is_stream_store(int opcode) {
    switch (opcode) {
        case OP_movntps:
        case OP_movntpd:
        case OP_movnti:
        case OP_movntq:
        case OP_movntdq:
        case OP_movntss:
        case OP_movntsd:
        case OP_vmovntps:
        case OP_vmovntpd:
        case OP_vmovntdq:
        case OP_movdiri:
        case OP_movdir64b:
            return true;
        default:
            return false;
    }
}

bool touches_no_memory(instr_t* instruction) {
    const int opcode = instr_get_opcode(instruction);
    return opcode == OP_clflush || opcode == OP_clflushopt || opcode == OP_clwb ||
           opcode == OP_cldemote || instr_is_prefetch(instruction);
}

std::optional<RecordedAccess::Kind> string_kind(int opcode) {
    switch (opcode) {
        case OP_rep_movs:
            return RecordedAccess::Kind::rep_movs;
        case OP_rep_stos:
            return RecordedAccess::Kind::rep_stos;
        case OP_rep_lods:
            return RecordedAccess::Kind::rep_lods;
        default:
            return std::nullopt;
    }
}

bool has_memory_operand(instr_t* instruction) {
    return instr_reads_memory(instruction) || instr_writes_memory(instruction);
}

// Walks the instructions of one part. A word that was recorded serves later operands too, as long
// as its registers have changed by constants only: pushes, pops, and additions of immediates.
class Planner {
  public:
    Planner(BlockPart& part, const PlanOptions& options) : part_(part), options_(options) {}

    // Lets the part be a loop, whose instructions these are. Call this before the first `add`.
    void plan_loop(instr_t* first) {
        for (instr_t* i = first; i != nullptr; i = instr_get_next_app(i)) follow_registers(i);
        part_.block.loop = true;
        part_.block.begin = reinterpret_cast<std::uint64_t>(instr_get_app_pc(first));
        iteration_ = std::exchange(registers_, {});
    }

    void add(instr_t* instruction) {
        place_ = AccessPlace(0, 0).at(part_.block.instructions);
        ++part_.block.instructions;
        // Calls and returns are wanted even where accesses are not.
        if (instr_is_call(instruction) || instr_is_return(instruction)) {
            add_branch(instruction);
        } else if (options_.accesses && !touches_no_memory(instruction) &&
                   part_.special == Special::none) {
            if (const auto kind = string_kind(instr_get_opcode(instruction))) {
                add_string(instruction, *kind);
            } else {
                add_operands(instruction);
            }
        }
        follow_registers(instruction);
    }

    // Call this when all instructions are known. It counts how many accesses come after each.
    void finish() {
        RecordedBlock& block = part_.block;
        for (RecordedAccess& access : block.accesses) {
            if (access.word == no_word || !block.loop) continue;
            const bool steady = (access.word & steady_word) != 0;
            access.word = static_cast<std::uint16_t>(steady ? access.word & ~steady_word
                                                            : access.word + block.steady_words());
        }
        if (block.loop && block.words == 0) add_counter();
        block.words = static_cast<std::uint16_t>(block.words + block.steady_words());
        std::uint64_t later = 0;
        for (auto access = block.accesses.rbegin(); access != block.accesses.rend(); ++access) {
            access->place = access->place.with_later(later);
            if (access->kind <= RecordedAccess::Kind::store) later += pieces(access->bytes);
        }
        block.certain = static_cast<std::uint16_t>(later);
    }

  private:
    static constexpr std::uint16_t steady_word = 0x8000;  // while the other words are not numbered

    struct Register {
        unsigned version = 0;
        std::int64_t change = 0;  // since its version began
    };
    // A word that is in the buffer: the values of two registers when it was stored.
    struct Known {
        reg_id_t base, index;
        int scale;
        unsigned base_version, index_version;
        std::int64_t base_change, index_change;
        std::uint16_t word;
    };

    void add_branch(instr_t* instruction) {
        RecordedBlock& block = part_.block;
        const bool call = instr_is_call(instruction);
        if (instr_is_return(instruction) && instr_get_opcode(instruction) != OP_ret) return;
        if (options_.accesses) add_operands(instruction);
        block.branch = call ? Branch::call : Branch::ret;
        const app_pc pc = instr_get_app_pc(instruction);
        block.return_address =
            reinterpret_cast<std::uint64_t>(pc) +
            static_cast<std::uint64_t>(instr_length(dr_get_current_drcontext(), instruction));
        const opnd_t top = opnd_create_base_disp(DR_REG_XSP, DR_REG_NULL, 0, call ? -8 : 0, OPSZ_8);
        block.stack = access(instruction, top, RecordedAccess::Kind::load);
    }

    void add_operands(instr_t* instruction) {
        const bool reads = instr_reads_memory(instruction);
        const bool writes = instr_writes_memory(instruction);
        for (int i = 0; reads && i < instr_num_srcs(instruction); ++i) {
            add_operand(instruction, instr_get_src(instruction, i), RecordedAccess::Kind::load);
        }
        const auto store = is_stream_store(instr_get_opcode(instruction))
                               ? RecordedAccess::Kind::stream_store
                               : RecordedAccess::Kind::store;
        for (int i = 0; writes && i < instr_num_dsts(instruction); ++i) {
            add_operand(instruction, instr_get_dst(instruction, i), store);
        }
    }

    void add_operand(instr_t* instruction, opnd_t operand, RecordedAccess::Kind kind) {
        if (!opnd_is_memory_reference(operand)) return;
        // The size 0 is that of an operand whose size depends on the processor's state.
        unsigned bytes = opnd_size_in_bytes(opnd_get_size(operand));
        if (bytes == 0) return;
        // DynamoRIO has no name for the size of this operand, which is half of the shortest vector.
        if (instr_get_opcode(instruction) == OP_vmovddup && bytes == 16) bytes = 8;
        for (std::int64_t offset = 0; bytes > 0;) {
            const unsigned part = std::min(bytes, 64u);
            RecordedAccess made = access(instruction, operand, kind);
            made.displacement += static_cast<std::uint64_t>(offset);
            made.bytes = static_cast<std::uint8_t>(part);
            part_.block.accesses.push_back(made);
            offset += part;
            bytes -= part;
        }
    }

    void add_string(instr_t* instruction, RecordedAccess::Kind kind) {
        RecordedAccess made;
        made.kind = kind;
        made.place = place_.as_string();
        const opnd_t memory = kind == RecordedAccess::Kind::rep_lods
                                  ? instr_get_src(instruction, 0)
                                  : instr_get_dst(instruction, 0);
        made.bytes = static_cast<std::uint8_t>(opnd_size_in_bytes(opnd_get_size(memory)));
        made.word = part_.block.words;
        for (const reg_id_t reg : {DR_REG_RCX, DR_REG_RSI, DR_REG_RDI}) {
            record(instruction, RecordedWord::Source::reg, opnd_create_reg(reg));
        }
        part_.block.accesses.push_back(made);
    }

    // Adds a word for the operand's registers, unless one is known already.
    RecordedAccess access(instr_t* instruction, opnd_t operand, RecordedAccess::Kind kind) {
        RecordedAccess made;
        made.kind = kind;
        made.place = place_;
        if (!opnd_is_base_disp(operand)) {  // relative to the instruction, or absolute
            made.displacement = reinterpret_cast<std::uint64_t>(opnd_get_addr(operand));
            return made;
        }
        const reg_id_t segment = opnd_get_segment(operand);
        const reg_id_t base = opnd_get_base(operand), index = opnd_get_index(operand);
        const bool plain = segment != DR_SEG_FS && segment != DR_SEG_GS &&
                           (base == DR_REG_NULL || is_general(base)) &&
                           (index == DR_REG_NULL || is_general(index));
        if (!plain) {
            made.word = record(instruction, RecordedWord::Source::address, operand);
            return made;
        }
        const auto displacement = static_cast<std::int64_t>(opnd_get_disp(operand));
        if (base == DR_REG_NULL && index == DR_REG_NULL) {
            made.displacement = static_cast<std::uint64_t>(displacement);
            return made;
        }
        const int scale = index == DR_REG_NULL ? 0 : opnd_get_scale(operand);
        const Known& known = word_of(instruction, base, index, scale);
        made.word = known.word;
        made.displacement =
            static_cast<std::uint64_t>(displacement + change(base) - known.base_change +
                                       scale * (change(index) - known.index_change));
        return made;
    }

    const Known& word_of(instr_t* instruction, reg_id_t base, reg_id_t index, int scale) {
        for (auto known = known_.rbegin(); known != known_.rend(); ++known) {
            if (known->base == base && known->index == index && known->scale == scale &&
                known->base_version == version(base) && known->index_version == version(index)) {
                return *known;
            }
        }
        const auto source = scale == 0 ? RecordedWord::Source::reg : RecordedWord::Source::sum;
        const opnd_t operand = scale == 0 ? opnd_create_reg(base)
                                          : opnd_create_base_disp(base, index, scale, 0, OPSZ_lea);
        if (is_steady(base) && is_steady(index)) {
            std::vector<std::int64_t>& strides = part_.block.strides;
            const auto word = static_cast<std::uint16_t>(strides.size());
            strides.push_back(stride(base) + scale * stride(index));
            part_.steady.push_back({source, instruction, word, operand});
            known_.push_back(
                {base, index, scale, 0, 0, 0, 0, static_cast<std::uint16_t>(word | steady_word)});
        } else {
            const std::uint16_t word = record(instruction, source, operand);
            known_.push_back({base, index, scale, version(base), version(index), change(base),
                              change(index), word});
        }
        return known_.back();
    }

    // Adds a register that counts the iterations to the steady words, if there is one.
    void add_counter() {
        RecordedBlock& block = part_.block;
        for (reg_id_t reg = DR_REG_RAX; reg <= DR_REG_R15; ++reg) {
            if (!is_steady(reg) || stride(reg) == 0) continue;
            block.counter = static_cast<std::uint16_t>(block.strides.size());
            block.strides.push_back(stride(reg));
            part_.steady.push_back(
                {RecordedWord::Source::reg, nullptr, block.counter, opnd_create_reg(reg)});
            return;
        }
    }

    // Whether each iteration of the loop changes the register by a constant, and by which.
    bool is_steady(reg_id_t reg) const {
        return part_.block.loop && (reg == DR_REG_NULL || iteration_[index_of(reg)].version == 0);
    }
    std::int64_t stride(reg_id_t reg) const {
        return reg == DR_REG_NULL ? 0 : iteration_[index_of(reg)].change;
    }

    std::uint16_t record(instr_t* instruction, RecordedWord::Source source, opnd_t operand) {
        const std::uint16_t word = part_.block.words++;
        part_.words.push_back({source, instruction, word, operand});
        return word;
    }

    unsigned version(reg_id_t reg) const {
        return reg == DR_REG_NULL ? 0 : registers_[index_of(reg)].version;
    }
    std::int64_t change(reg_id_t reg) const {
        return reg == DR_REG_NULL ? 0 : registers_[index_of(reg)].change;
    }

    // Returns by how much the instruction changes the one register that it writes, if that is a
    // constant.
    static std::optional<std::int64_t> constant_change(instr_t* instruction, reg_id_t reg) {
        const auto immediate = [&](opnd_t operand) -> std::optional<std::int64_t> {
            if (!opnd_is_immed_int(operand)) return std::nullopt;
            return static_cast<std::int64_t>(opnd_get_immed_int(operand));
        };
        const auto is_reg = [reg](opnd_t operand) {
            return opnd_is_reg(operand) && opnd_get_reg(operand) == reg;
        };
        const int opcode = instr_get_opcode(instruction);
        switch (opcode) {
            case OP_push:
            case OP_push_imm:
            case OP_pop: {
                if (reg != DR_REG_RSP) return std::nullopt;
                // Both have two destinations or sources; the stack's operand is in memory.
                const bool pop = opcode == OP_pop;
                const opnd_t memory =
                    pop ? instr_get_src(instruction, 1) : instr_get_dst(instruction, 1);
                if (!opnd_is_base_disp(memory)) return std::nullopt;
                if (pop && is_reg(instr_get_dst(instruction, 0))) return std::nullopt;
                const auto bytes =
                    static_cast<std::int64_t>(opnd_size_in_bytes(opnd_get_size(memory)));
                return pop ? bytes : -bytes;
            }
            case OP_inc:
                return is_reg(instr_get_dst(instruction, 0)) ? std::optional(std::int64_t{1})
                                                             : std::nullopt;
            case OP_dec:
                return is_reg(instr_get_dst(instruction, 0)) ? std::optional(std::int64_t{-1})
                                                             : std::nullopt;
            case OP_add:
            case OP_sub: {
                if (!is_reg(instr_get_dst(instruction, 0))) return std::nullopt;
                std::optional<std::int64_t> amount;
                for (int i = 0; i < instr_num_srcs(instruction); ++i) {
                    if (const auto value = immediate(instr_get_src(instruction, i))) amount = value;
                }
                if (!amount) return std::nullopt;
                return opcode == OP_add ? *amount : -*amount;
            }
            case OP_lea: {
                const opnd_t from = instr_get_src(instruction, 0);
                if (!is_reg(instr_get_dst(instruction, 0)) || !opnd_is_base_disp(from) ||
                    opnd_get_base(from) != reg || opnd_get_index(from) != DR_REG_NULL) {
                    return std::nullopt;
                }
                return opnd_get_disp(from);
            }
            default:
                return std::nullopt;
        }
    }

    void follow_registers(instr_t* instruction) {
        for (int i = 0; i < instr_num_dsts(instruction); ++i) {
            const opnd_t written = instr_get_dst(instruction, i);
            if (!opnd_is_reg(written)) continue;
            const reg_id_t part = opnd_get_reg(written);
            if (!reg_is_gpr(part)) continue;
            const reg_id_t reg = reg_to_pointer_sized(part);
            Register& state = registers_[index_of(reg)];
            const auto change = part == reg ? constant_change(instruction, reg) : std::nullopt;
            if (change) {
                state.change += *change;
            } else {
                ++state.version;
                state.change = 0;
            }
        }
    }

    BlockPart& part_;
    const PlanOptions options_;
    AccessPlace place_;
    std::array<Register, general_registers> registers_{};
    std::array<Register, general_registers> iteration_{};  // at the end of a loop's iteration
    std::vector<Known> known_;
};

// Returns whether no instruction reads flags of the processor that were set before the first one.
bool sets_flags_first(instr_t* first) {
    unsigned unset = EFLAGS_WRITE_ARITH;
    for (instr_t* i = first; i != nullptr; i = instr_get_next_app(i)) {
        const unsigned flags = instr_get_arith_flags(i, DR_QUERY_DEFAULT);
        if ((EFLAGS_READ_TO_WRITE(flags & EFLAGS_READ_ARITH) & unset) != 0) return false;
        unset &= ~flags;
    }
    return unset == 0;
}

bool branches_to_itself(instr_t* first, instr_t* last) {
    return instr_is_cbr(last) && !instr_is_cti_loop(last) && opnd_is_pc(instr_get_target(last)) &&
           opnd_get_pc(instr_get_target(last)) == instr_get_app_pc(first);
}

// Plans a part that is a whole block as a loop, if it is one and that gains anything.
void plan_loop(BlockPart& part, const PlanOptions& options) {
    if (!options.loops || part.special != Special::none ||
        !branches_to_itself(part.first, part.last) || !sets_flags_first(part.first)) {
        return;
    }
    BlockPart loop{part.first, part.last, part.special, {}, {}, {}};
    Planner planner(loop, options);
    planner.plan_loop(part.first);
    for (instr_t* i = part.first; i != nullptr; i = instr_get_next_app(i)) planner.add(i);
    planner.finish();
    const RecordedBlock& block = loop.block;
    const bool plain = std::all_of(
        block.accesses.begin(), block.accesses.end(),
        [](const RecordedAccess& access) { return access.kind <= RecordedAccess::Kind::store; });
    if (!plain || block.steady_words() > most_steady_words ||
        block.other_words() > most_other_words ||
        (block.steady_words() == 0 && block.other_words() > 0)) {
        return;
    }
    part = std::move(loop);
}

Special special_kind(instr_t* instruction, const PlanOptions& options) {
    std::array<std::uint8_t, 16> bytes;
    const app_pc pc = instr_get_app_pc(instruction);
    const int length = instr_length(dr_get_current_drcontext(), instruction);
    if (length == 7) {
        std::copy_n(pc, 7, bytes.begin());
        if (is_doorbell(bytes.data(), 7)) return Special::doorbell;
    }
    if (!options.accesses) return Special::none;
    if (is_irregular(instruction)) return Special::irregular;
    if (options.backward_strings && string_kind(instr_get_opcode(instruction))) {
        return Special::irregular;
    }
    return Special::none;
}

}  // namespace

bool is_irregular(instr_t* instruction) {
    if (instr_is_gather(instruction) || instr_is_scatter(instruction)) return true;
    switch (instr_get_opcode(instruction)) {
        case OP_maskmovq:
        case OP_maskmovdqu:
        case OP_vmaskmovdqu:
        case OP_vmaskmovps:
        case OP_vmaskmovpd:
        case OP_vpmaskmovd:
        case OP_vpmaskmovq:
        case OP_xsave32:
        case OP_xsave64:
        case OP_xsaveopt32:
        case OP_xsaveopt64:
        case OP_xsavec32:
        case OP_xsavec64:
        case OP_xrstor32:
        case OP_xrstor64:
        case OP_rep_cmps:
        case OP_repne_cmps:
        case OP_rep_scas:
        case OP_repne_scas:
            return has_memory_operand(instruction);
        default:
            break;
    }
    if (!has_memory_operand(instruction)) return false;
    if (is_bit_of_string(instruction) || moves_tile(instruction)) return true;
    // A store of a mask register (kmov) has it as its value.
    return mask_register(instruction) && instr_num_srcs(instruction) > 1 &&
           mask_hides_elements(instruction);
}

std::vector<BlockPart> plan_block(instrlist_t* instructions, const PlanOptions& options) {
    std::vector<BlockPart> parts;
    std::optional<Planner> planner;
    for (instr_t* instruction = instrlist_first_app(instructions); instruction != nullptr;
         instruction = instr_get_next_app(instruction)) {
        if (!planner) parts.emplace_back().first = instruction;
        BlockPart& part = parts.back();
        part.last = instruction;
        part.special = special_kind(instruction, options);
        if (!planner) planner.emplace(part, options);
        planner->add(instruction);
        if (part.special != Special::none) {
            planner->finish();
            planner.reset();
        }
    }
    if (planner) planner->finish();
    if (parts.size() == 1) plan_loop(parts.front(), options);
    return parts;
}

}  // namespace pagelens
