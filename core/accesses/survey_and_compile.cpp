#include "core/accesses/survey_and_compile.hpp"

#include "core/accesses/compiler.hpp"
#include "core/accesses/surveyor.hpp"

namespace pagelens {

namespace {

// A visitor that tells two others.
template <class First, class Second>
class Both {
  public:
    Both(First& first, Second& second) : first_(first), second_(second) {}

    void line(EventKind kind, std::uint32_t page, unsigned index, ObjectIndex object,
              unsigned thread) {
        first_.line(kind, page, index, object, thread);
        second_.line(kind, page, index, object, thread);
    }
    void map(PageState state, std::uint32_t page, ObjectIndex object, unsigned thread) {
        first_.map(state, page, object, thread);
        second_.map(state, page, object, thread);
    }
    void unmap(std::span<const std::uint32_t> pages, unsigned thread) {
        first_.unmap(pages, thread);
        second_.unmap(pages, thread);
    }
    void phase(unsigned phase, unsigned thread) {
        first_.phase(phase, thread);
        second_.phase(phase, thread);
    }
    void meet(std::uint64_t meeting, unsigned thread) {
        first_.meet(meeting, thread);
        second_.meet(meeting, thread);
    }
    void birth(ObjectIndex object, std::uint64_t address, std::uint64_t bytes) {
        first_.birth(object, address, bytes);
        second_.birth(object, address, bytes);
    }
    void death(std::uint64_t address) {
        first_.death(address);
        second_.death(address);
    }
    void blocks_gone(std::uint64_t first_page, std::uint64_t pages) {
        first_.blocks_gone(first_page, pages);
        second_.blocks_gone(first_page, pages);
    }
    void progress(unsigned thread, std::uint64_t instructions, std::uint64_t clock) {
        first_.progress(thread, instructions, clock);
        second_.progress(thread, instructions, clock);
    }

  private:
    First& first_;
    Second& second_;
};

}  // namespace

SurveyAndProgram survey_and_compile(const TraceReader& reader, std::uint64_t moment_instructions,
                                    const CompileOptions& options, const WalkPoll& poll) {
    check(reader.header(), options);
    TraceWalk walk(reader, options.sample.sets);
    detail::Surveyor surveyor(reader, walk, moment_instructions);
    detail::Compiler compiler(reader, walk, options);
    Both both(surveyor, compiler);
    walk.run(both, poll);
    return {surveyor.finish(), compiler.finish()};
}

}  // namespace pagelens
