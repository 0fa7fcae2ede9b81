// What instructions that save and restore the processor's state access, and the tiles of AMX.
#pragma once

#include <dr_api.h>

#include "tracer/dynamorio/irregular_access.hpp"

namespace pagelens {

// xsave and its kin.
void save_area(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit);

bool moves_tile(instr_t* instruction);
void tile_rows(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit);

}  // namespace pagelens
