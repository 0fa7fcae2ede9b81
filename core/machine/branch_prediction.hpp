// Which branches of a run a processor foresees, estimated from samples of it.
//
// Branches are foreseen by what they did before with the same history, as predictors of the TAGE
// family do (Seznec, Michaud: A case for (partially) tagged geometric history length branch
// prediction, JILP 8, 2006): of several lengths of the global history, and of the branch's own,
// each branch uses the one that foresees it best. What a branch did is held against its other
// executions with the same history, in all samples: a real predictor has seen all of the run until
// then, and the samples are a small part of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/pipeline.hpp"

namespace pagelens {

// For each sample, of the blocks in the order of execution: 1 for each block unless its last
// instruction is a branch that was mispredicted.
std::vector<std::vector<std::uint8_t>> foreseen_branches(
    const Code& code, std::span<const std::vector<std::uint32_t>> samples);

}  // namespace pagelens
