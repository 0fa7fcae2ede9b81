// Survey and compilation in one walk: who wants both has the trace decoded, its pages numbered and
// its objects found once.
#pragma once

#include <cstdint>
#include <memory>

#include "core/accesses/compile.hpp"
#include "core/accesses/survey.hpp"

namespace pagelens {

struct SurveyAndProgram {
    Survey survey;
    std::unique_ptr<const CompiledTrace> program;
};

// Returns what survey() and compile() return. Throws what they throw.
SurveyAndProgram survey_and_compile(const TraceReader& reader, std::uint64_t moment_instructions,
                                    const CompileOptions& options, const WalkPoll& poll = {});

}  // namespace pagelens
