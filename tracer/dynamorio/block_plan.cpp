#include "tracer/dynamorio/block_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "tracer/doorbell.hpp"

namespace pagelens {

namespace {

constexpr std::size_t general_registers = DR_REG_R15 - DR_REG_RAX + 1;

bool is_general(reg_id_t reg) { return reg >= DR_REG_RAX && reg <= DR_REG_R15; }
std::size_t index_of(reg_id_t reg) { return reg - DR_REG_RAX; }

// k0 stands where an instruction has no mask.
bool hides_elements(reg_id_t reg) { return reg > DR_REG_K0 && reg <= DR_REG_STOP_OPMASK; }

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
        std::uint64_t later = 0;
        for (auto access = block.accesses.rbegin(); access != block.accesses.rend(); ++access) {
            access->place = access->place.with_later(later);
            if (access->kind <= RecordedAccess::Kind::store) later += pieces(access->bytes);
        }
        block.certain = static_cast<std::uint16_t>(later);
    }

  private:
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
        const std::uint16_t word =
            scale == 0 ? record(instruction, RecordedWord::Source::reg, opnd_create_reg(base))
                       : record(instruction, RecordedWord::Source::sum,
                                opnd_create_base_disp(base, index, scale, 0, OPSZ_lea));
        known_.push_back(
            {base, index, scale, version(base), version(index), change(base), change(index), word});
        return known_.back();
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
    std::vector<Known> known_;
};

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
    for (int i = 0; i < instr_num_srcs(instruction); ++i) {
        const opnd_t operand = instr_get_src(instruction, i);
        if (opnd_is_reg(operand) && hides_elements(opnd_get_reg(operand))) {
            // A store of a mask register (kmov) has it as its value.
            return instr_num_srcs(instruction) > 1;
        }
    }
    return false;
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
    return parts;
}

}  // namespace pagelens
