// Plans what is recorded of a block of instructions, and before which instruction each word is
// stored.
#pragma once

#include <dr_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tracer/dynamorio/recorded_block.hpp"

namespace pagelens {

// A word to record before an instruction runs.
struct RecordedWord {
    enum class Source : std::uint8_t { reg, sum, address };

    Source source;
    instr_t* before;
    std::uint16_t word;  // of a loop's iteration: without the steady words before it
    opnd_t operand;      // a register; base and index without displacement; a whole operand
};

// Instructions that need a call of their own, with all of the program's registers in place.
enum class Special : std::uint8_t { none, doorbell, irregular };

// A part of a block is recorded as a whole. It ends with the block, or with a special instruction.
struct BlockPart {
    instr_t* first = nullptr;
    instr_t* last = nullptr;
    Special special = Special::none;  // of `last`
    RecordedBlock block;
    std::vector<RecordedWord> words;   // of a loop: of each iteration
    std::vector<RecordedWord> steady;  // of a loop, before its first instruction
};

struct PlanOptions {
    bool accesses;          // record them; else calls and returns alone
    bool loops;             // record them as such
    bool backward_strings;  // the program has set the direction flag at some time
};

std::vector<BlockPart> plan_block(instrlist_t* instructions, const PlanOptions& options);

// Accesses that depend on more than general registers: gathers, scatters, masks, xsave, rep cmps.
bool is_irregular(instr_t* instruction);

}  // namespace pagelens
