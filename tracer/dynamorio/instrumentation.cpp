#include "tracer/dynamorio/instrumentation.hpp"

#include <drmgr.h>
#include <drreg.h>
#include <drutil.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tracer/dynamorio/block_plan.hpp"
#include "tracer/dynamorio/state.hpp"

namespace pagelens {

namespace {

RecordedBlocks* blocks;
InstrumentationCalls calls;
reg_id_t slots_register;
unsigned slots_offset;
std::atomic<bool> sets_direction{false};

// The addresses of loops that are recorded as blocks.
class ShortLoops {
  public:
    void add(std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        addresses_.insert(address);
    }
    bool contains(std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        return addresses_.contains(address);
    }

  private:
    std::mutex mutex_;
    std::unordered_set<std::uint64_t> addresses_;
} short_loops;

// The parts of a block, from its analysis to its last instruction.
struct Plan {
    std::vector<BlockPart> parts;
    std::vector<std::uint32_t> numbers;  // of the parts
    std::size_t part = 0, word = 0;      // what comes next
    app_pc begin_function = nullptr;     // tracing begins at this instruction of the block
    unsigned instructions = 0;           // if they are only counted
};

opnd_t slot(void* context, std::size_t member) {
    return dr_raw_tls_opnd(context, slots_register, slots_offset + static_cast<unsigned>(member));
}

// Equal blocks share their record: a block is translated again for a trace, and after a flush.
std::uint32_t number_of(BlockPart& part, bool traced) {
    static std::mutex mutex;
    static std::unordered_map<std::string, std::uint32_t> known;
    std::string code;
    void* const context = dr_get_current_drcontext();
    for (instr_t* i = part.first; i != nullptr; i = instr_get_next_app(i)) {
        const auto* bytes = reinterpret_cast<const char*>(instr_get_app_pc(i));
        code.append(bytes, static_cast<std::size_t>(instr_length(context, i)));
        if (i == part.last) break;
    }
    const auto address = reinterpret_cast<std::uint64_t>(instr_get_app_pc(part.first));
    std::string key = code;
    key.append(reinterpret_cast<const char*>(&address), sizeof address);
    key += traced ? 't' : 'w';
    key += static_cast<char>(part.special);
    key += part.block.loop ? 'l' : 'b';
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.try_emplace(std::move(key), 0);
    if (!is_new) return entry->second;
    RecordedBlock& block = part.block;
    block.traced = traced;
    if (traced) block.code = tracer->code().number(address, std::move(code));
    for (RecordedAccess& access : block.accesses) {
        access.place = AccessPlace(std::uint64_t{block.code} << 32 |
                                   (access.place.word() & ((std::uint64_t{1} << 32) - 1)));
    }
    entry->second = blocks->add(std::move(block));
    return entry->second;
}

bool is_interposers(app_pc pc) {
    const auto module = tracer->modules().find(reinterpret_cast<std::uint64_t>(pc));
    return module && module->role == ModuleRole::hooks;
}

dr_emit_flags_t analyse(void*, void*, instrlist_t* instructions, bool, bool, void** user_data) {
    auto* plan = new Plan;
    *user_data = plan;
    instr_t* const first = instrlist_first_app(instructions);
    if (first == nullptr) return DR_EMIT_STORE_TRANSLATIONS;
    const Stage now = stage;
    const bool untraced = now == Stage::finishing || now == Stage::idle;
    // The function's file becomes known when its first block is looked up.
    if (now == Stage::waiting) static_cast<void>(is_interposers(instr_get_app_pc(first)));
    const std::uint64_t begin = now == Stage::waiting ? tracer->begin_address() : 0;
    for (instr_t* i = first; i != nullptr; i = instr_get_next_app(i)) {
        if (untraced) ++plan->instructions;
        if (instr_get_opcode(i) == OP_std) sets_direction = true;
        if (begin != 0 && reinterpret_cast<std::uint64_t>(instr_get_app_pc(i)) == begin)
            plan->begin_function = instr_get_app_pc(i);
    }
    if (untraced) return DR_EMIT_STORE_TRANSLATIONS;
    const bool traced = (now == Stage::tracing || now == Stage::skipping) &&
                        !is_interposers(instr_get_app_pc(first));
    const bool loops =
        traced && options.loops != 0 &&
        !short_loops.contains(reinterpret_cast<std::uint64_t>(instr_get_app_pc(first)));
    plan->parts = plan_block(instructions, {traced, loops, sets_direction});
    for (BlockPart& part : plan->parts) plan->numbers.push_back(number_of(part, traced));
    return DR_EMIT_STORE_TRANSLATIONS;
}

// Adds code before one instruction of the program, with one register that it may use.
class Insertion {
  public:
    Insertion(void* context, instrlist_t* list, instr_t* where)
        : context_(context), list_(list), where_(where) {
        drreg_init_and_fill_vector(&allowed_, true);
    }
    ~Insertion() {
        if (next_ != DR_REG_NULL) drreg_unreserve_register(context_, list_, where_, next_);
        drvector_delete(&allowed_);
    }
    Insertion(const Insertion&) = delete;
    Insertion& operator=(const Insertion&) = delete;

    // The register is none of this operand's.
    void keep(opnd_t operand) {
        for (int i = 0; i < opnd_num_regs_used(operand); ++i) {
            const reg_id_t reg = opnd_get_reg_used(operand, i);
            if (reg_is_gpr(reg)) {
                drreg_set_vector_entry(&allowed_, reg_to_pointer_sized(reg), false);
            }
        }
    }

    // Returns the place of the thread's next word.
    reg_id_t next() {
        if (next_ == DR_REG_NULL) {
            next_ = reserve();
            load_next();
        }
        return next_;
    }
    void load_next() {
        meta(XINST_CREATE_load(context_, opnd_create_reg(next_),
                               slot(context_, offsetof(ThreadSlots, next))));
    }

    void begin_block(std::uint32_t number) {
        if (next_ == DR_REG_NULL) next_ = reserve();
        drreg_reserve_aflags(context_, list_, where_);
        load_next();
        make_room();
        drreg_unreserve_aflags(context_, list_, where_);
        store_number(number);
    }

    // Goes on with the loop if its last iteration is the last that was recorded. Else the loop
    // begins. The program needs no flags here.
    void begin_iteration(const RecordedBlock& loop, std::uint32_t number,
                         const std::vector<RecordedWord>& steady) {
        for (const RecordedWord& word : steady) {
            keep(word.operand);
            drreg_restore_app_values(context_, list_, where_, word.operand, nullptr);
        }
        next_ = reserve();
        const reg_id_t value = reserve();
        const auto tag = OPND_CREATE_INT32(static_cast<int>(loop_tag(number)));
        const int size = 8 * static_cast<int>(loop.loop_words());
        instr_t* const goes_on = INSTR_CREATE_label(context_);
        load_next();
        if (!loop.counts()) make_room();
        meta(INSTR_CREATE_cmp(context_, OPND_CREATE_MEM32(next_, 4 - size), tag));
        meta(INSTR_CREATE_jcc(context_, OP_je, opnd_create_instr(goes_on)));
        if (loop.counts()) make_room();
        store_number(number);
        int offset = 8;
        for (const RecordedWord& word : steady) {
            opnd_t from = word.operand;
            if (word.source == RecordedWord::Source::sum) {
                from = opnd_create_reg(value);
                meta(INSTR_CREATE_lea(context_, from, word.operand));
            }
            meta(INSTR_CREATE_mov_st(context_, OPND_CREATE_MEMPTR(next_, offset), from));
            offset += 8;
        }
        if (loop.counts()) {
            // One store, because what it stores is soon loaded as a whole.
            const auto word = static_cast<std::int64_t>(loop_word(number));
            meta(INSTR_CREATE_mov_imm(context_, opnd_create_reg(value), OPND_CREATE_INT64(word)));
            meta(INSTR_CREATE_mov_st(context_, OPND_CREATE_MEMPTR(next_, offset),
                                     opnd_create_reg(value)));
            offset += size;
        }
        advance(offset);
        meta(goes_on);
        if (loop.counter != no_word) {
            meta(INSTR_CREATE_mov_st(context_, OPND_CREATE_MEMPTR(next_, -8),
                                     steady[loop.counter].operand));
        } else if (loop.counts()) {
            meta(INSTR_CREATE_dec(context_, OPND_CREATE_MEMPTR(next_, -8)));
        } else {
            meta(INSTR_CREATE_mov_st(context_, OPND_CREATE_MEM32(next_, 4), tag));
        }
        drreg_unreserve_register(context_, list_, where_, value);
    }

    void word(const RecordedWord& word) {
        drreg_restore_app_values(context_, list_, where_, word.operand, nullptr);
        const opnd_t to = OPND_CREATE_MEMPTR(next(), 8 * (1 + word.word));
        if (word.source == RecordedWord::Source::reg) {
            meta(INSTR_CREATE_mov_st(context_, to, word.operand));
            return;
        }
        const reg_id_t value = reserve();
        if (word.source == RecordedWord::Source::sum) {
            meta(INSTR_CREATE_lea(context_, opnd_create_reg(value), word.operand));
        } else {
            const reg_id_t scratch = reserve();
            drutil_insert_get_mem_addr(context_, list_, where_, word.operand, value, scratch);
            drreg_unreserve_register(context_, list_, where_, scratch);
        }
        meta(INSTR_CREATE_mov_st(context_, to, opnd_create_reg(value)));
        drreg_unreserve_register(context_, list_, where_, value);
    }

    void end_block(std::size_t words) {
        const reg_id_t reg = next();
        advance(static_cast<int>(8 * (1 + words)));
        drreg_unreserve_register(context_, list_, where_, reg);
        next_ = DR_REG_NULL;
    }

    void count(unsigned instructions) {
        const reg_id_t reg = reserve();
        const opnd_t counter = slot(context_, offsetof(ThreadSlots, untraced));
        meta(XINST_CREATE_load(context_, opnd_create_reg(reg), counter));
        meta(INSTR_CREATE_lea(
            context_, opnd_create_reg(reg),
            OPND_CREATE_MEM_lea(reg, DR_REG_NULL, 0, static_cast<int>(instructions))));
        meta(XINST_CREATE_store(context_, counter, opnd_create_reg(reg)));
        drreg_unreserve_register(context_, list_, where_, reg);
    }

    // Calls with the program's registers in place. The callee may go elsewhere and so change them.
    void call(void* callee, opnd_t first, opnd_t second) {
        const auto flags = static_cast<dr_cleancall_save_t>(DR_CLEANCALL_READS_APP_CONTEXT |
                                                            DR_CLEANCALL_WRITES_APP_CONTEXT);
        dr_insert_clean_call_ex(context_, list_, where_, callee, flags, 2, first, second);
    }

  private:
    reg_id_t reserve() {
        reg_id_t reg = DR_REG_NULL;
        if (drreg_reserve_register(context_, list_, where_, &allowed_, &reg) != DRREG_SUCCESS) {
            dr_fprintf(STDERR, "pagelens: no register is left for the tracer\n");
            dr_abort();
        }
        return reg;
    }
    void meta(instr_t* instruction) { instrlist_meta_preinsert(list_, where_, instruction); }

    // Needs the flags.
    void make_room() {
        instr_t* const fits = INSTR_CREATE_label(context_);
        meta(INSTR_CREATE_cmp(context_, opnd_create_reg(next_),
                              slot(context_, offsetof(ThreadSlots, limit))));
        meta(INSTR_CREATE_jcc(context_, OP_jbe, opnd_create_instr(fits)));
        dr_insert_clean_call(context_, list_, where_, reinterpret_cast<void*>(calls.drain), false,
                             0);
        load_next();
        meta(fits);
    }
    void store_number(std::uint32_t number) {
        meta(INSTR_CREATE_mov_st(context_, OPND_CREATE_MEMPTR(next_, 0),
                                 OPND_CREATE_INT32(static_cast<int>(number))));
    }
    void advance(int bytes) {
        meta(INSTR_CREATE_lea(context_, opnd_create_reg(next_),
                              OPND_CREATE_MEM_lea(next_, DR_REG_NULL, 0, bytes)));
        meta(XINST_CREATE_store(context_, slot(context_, offsetof(ThreadSlots, next)),
                                opnd_create_reg(next_)));
    }

    void* const context_;
    instrlist_t* const list_;
    instr_t* const where_;
    drvector_t allowed_;
    reg_id_t next_ = DR_REG_NULL;
};

void insert_special(void* context, Insertion& code, instr_t* instruction, Special special,
                    std::uint32_t number) {
    const app_pc pc = instr_get_app_pc(instruction);
    if (special == Special::doorbell) {
        const app_pc next = pc + instr_length(context, instruction);
        code.call(reinterpret_cast<void*>(calls.doorbell), OPND_CREATE_INTPTR(next),
                  OPND_CREATE_INT32(0));
    } else if (special == Special::irregular) {
        code.call(reinterpret_cast<void*>(calls.irregular), OPND_CREATE_INTPTR(pc),
                  OPND_CREATE_INT32(static_cast<int>(number)));
    }
}

dr_emit_flags_t insert(void* context, void*, instrlist_t* list, instr_t* where, bool, bool,
                       void* user_data) {
    auto* plan = static_cast<Plan*>(user_data);
    const bool is_last = drmgr_is_last_instr(context, where);
    if (instr_is_app(where)) {
        if (plan->instructions > 0) {
            Insertion(context, list, where).count(std::exchange(plan->instructions, 0u));
        }
        if (plan->begin_function != nullptr && instr_get_app_pc(where) == plan->begin_function) {
            Insertion(context, list, where)
                .call(reinterpret_cast<void*>(calls.begin_function),
                      OPND_CREATE_INTPTR(plan->begin_function), OPND_CREATE_INT32(0));
        }
        if (plan->part < plan->parts.size()) {
            BlockPart& part = plan->parts[plan->part];
            const std::uint32_t number = plan->numbers[plan->part];
            Insertion code(context, list, where);
            for (std::size_t i = plan->word; i < part.words.size(); ++i) {
                if (part.words[i].before == where) code.keep(part.words[i].operand);
            }
            const RecordedBlock& block = (*blocks)[number];
            if (where == part.first && block.loop) {
                code.begin_iteration(block, number, part.steady);
            } else if (where == part.first) {
                code.begin_block(number);
            }
            for (; plan->word < part.words.size() && part.words[plan->word].before == where;
                 ++plan->word) {
                code.word(part.words[plan->word]);
            }
            if (where == part.last) {
                if (!block.loop) {
                    code.end_block(block.words);
                } else if (!block.counts()) {
                    code.end_block(block.other_words());
                }
                insert_special(context, code, where, part.special, number);
                ++plan->part;
                plan->word = 0;
            }
        }
    }
    if (is_last) delete plan;
    return DR_EMIT_STORE_TRANSLATIONS;
}

}  // namespace

void record_as_block(std::uint64_t loop) {
    short_loops.add(loop);
    dr_delay_flush_region(reinterpret_cast<app_pc>(loop), 1, 0, nullptr);
}

bool Instrumentation::install(RecordedBlocks& recorded, const InstrumentationCalls& what,
                              reg_id_t where_register, unsigned where_offset) {
    blocks = &recorded;
    calls = what;
    slots_register = where_register;
    slots_offset = where_offset;
    return drmgr_register_bb_instrumentation_event(analyse, insert, nullptr);
}

bool Instrumentation::backward_strings() { return sets_direction; }

}  // namespace pagelens
