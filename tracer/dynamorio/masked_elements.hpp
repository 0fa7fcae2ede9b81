// The elements of AVX-512's operands in memory that a mask lets through.
#pragma once

#include <dr_api.h>

#include "tracer/dynamorio/irregular_access.hpp"

namespace pagelens {

// Whether a mask of the instruction says what it accesses, and not only what it writes to
// registers.
bool mask_hides_elements(instr_t* instruction);

void masked_elements(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit);

}  // namespace pagelens
