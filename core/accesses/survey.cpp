#include "core/accesses/survey.hpp"

#include "core/accesses/surveyor.hpp"

namespace pagelens {

Survey survey(const TraceReader& reader, const WalkPoll& poll, std::uint64_t moment_instructions) {
    TraceWalk walk(reader, LineSets{0});
    detail::Surveyor surveyor(reader, walk, moment_instructions);
    walk.run(surveyor, poll);
    return surveyor.finish();
}

}  // namespace pagelens
