// The accesses of instructions whose addresses depend on more than general registers: gathers and
// scatters, masked moves, xsave, and string operations that end early or run backwards.
#pragma once

#include <dr_api.h>

#include "tracer/dynamorio/irregular_access.hpp"

namespace pagelens {

// Whether the accesses are elements of one string operation.
bool is_string_operation(instr_t* instruction);

// Whether a register says which bit of a string in memory is meant.
bool is_bit_of_string(instr_t* instruction);

// Calls `emit` for each access that the instruction is about to make with these registers, in
// order. `registers` needs all parts of the context.
void irregular_accesses(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit);

}  // namespace pagelens
