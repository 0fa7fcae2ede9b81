// Replays a program's ops on one placement: `ranks` copies, each with its own pages, in lockstep.
//
// Everything that depends on the placement happens here: pages get and lose frames, the L2 caches
// (unless the program was compiled for large pages, with L2 applied), an L3 and snoop filter where
// there are any, and the memory-side cache are run, and each line is counted by phase and object.
// One thread; results depend on the arguments alone, so replays of different placements run in
// parallel.
#pragma once

#include "core/accesses/program.hpp"
#include "core/frames/placement.hpp"
#include "core/replay/counters.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/replay_options.hpp"
#include "core/replay/under_way.hpp"

namespace pagelens {

// Thread t of rank r runs on core r * program.threads() + t.
// Throws std::invalid_argument for sizes that do not fit, OutOfMemory when the node is too small,
// Cancelled if it was cancelled.
Counters replay(const Program& program, const Placement& placement, const Hierarchy& hierarchy,
                const ReplayOptions& options, const UnderWay& under_way);

}  // namespace pagelens
