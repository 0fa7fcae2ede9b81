// Surveys a trace: what it holds, for the user to read.
#pragma once

#include <cstdint>

#include "core/accesses/survey_result.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_walk.hpp"

namespace pagelens {

// `moment_instructions`, of all threads, are a moment of `live`; 0: there are none.
Survey survey(const TraceReader& reader, const WalkPoll& poll = {},
              std::uint64_t moment_instructions = 0);

}  // namespace pagelens
