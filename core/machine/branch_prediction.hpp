// Estimates which branches of a run a processor foresees, from samples of the run.
//
// Branches are foreseen by what they did before with the same history, as predictors of the TAGE
// family do (Seznec, Michaud: A case for (partially) tagged geometric history length branch
// prediction, JILP 8, 2006). Each branch uses the length of history that foresees it best, out of
// several lengths of the global history and of its own. What a branch did is compared with its
// other executions with the same history, in all samples, because a real predictor has seen all of
// the run until then, and the samples are only a small part of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/code.hpp"

namespace pagelens {

// Returns for each sample, and for its blocks in the order of execution, 0 if the block's last
// instruction is a branch that was mispredicted, else 1.
std::vector<std::vector<std::uint8_t>> foreseen_branches(
    const Code& code, std::span<const std::vector<std::uint32_t>> samples);

}  // namespace pagelens
