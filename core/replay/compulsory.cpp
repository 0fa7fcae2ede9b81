#include "core/replay/compulsory.hpp"

#include <bit>

#include "core/replay/page_copies.hpp"

namespace pagelens {
namespace {

// Sums up by phase, and says which lines a replay with excerpts would count.
class Sums {
  public:
    Sums(const Program& program, const std::vector<Excerpt>& excerpts)
        : excerpts_(excerpts),
          moved_(program.phases()),
          phases_(program.phases(), {0,
                                     0,
                                     std::vector<std::uint64_t>(program.objects()),
                                     {},
                                     std::vector<std::uint64_t>(program.objects())}) {}

    void enter(unsigned phase) { phase_ = phase; }

    // Copies move `lines`, of which `first` are fetched for the first time.
    void move(std::uint64_t lines, std::uint64_t first, std::uint16_t object) {
        const std::uint64_t before = moved_[phase_];
        moved_[phase_] += lines;
        if (first == 0) return;
        Compulsory& phase = phases_[phase_];
        phase.reads += first;
        phase.object_reads[object] += first;
        const Excerpt excerpt = excerpts_.empty() ? Excerpt() : excerpts_[phase_];
        if (excerpt.part(before) != Excerpt::Part::counted) return;
        const std::uint64_t number = excerpt.number(before);
        if (phase.stretch_reads.size() <= number) phase.stretch_reads.resize(number + 1);
        phase.stretch_reads[number] += first;
        phase.object_reads_in_stretches[object] += first;
    }

    void write(std::uint64_t lines) { phases_[phase_].writes += lines; }

    std::vector<Compulsory> take() && { return std::move(phases_); }

  private:
    const std::vector<Excerpt>& excerpts_;
    std::vector<std::uint64_t> moved_;  // [phase] lines, as a replay counts them
    std::vector<Compulsory> phases_;
    unsigned phase_ = 0;
};

}  // namespace

std::vector<Compulsory> compulsory_by_phase(const Program& program, std::uint32_t ranks,
                                            const std::vector<Excerpt>& excerpts) {
    if (!excerpts.empty()) check(program, excerpts);
    Sums sums(program, excerpts);
    PageCopies copies(program.pages().size(), ranks);
    std::vector<std::uint64_t> held(program.pages().size());  // [page] lines in the caches
    for_each_op(program, [&](const Op& op) {
        const bool anew = copies.step(op);
        const auto of_copies = [&](std::uint64_t lines) {
            return std::uint64_t{copies.of(op.page)} * static_cast<unsigned>(std::popcount(lines));
        };
        switch (op.kind()) {
            case OpKind::fetch:
                sums.move(of_copies(op.lines), of_copies(op.lines & ~held[op.page]), op.object);
                held[op.page] |= op.lines;
                break;
            case OpKind::stream_store:
                sums.move(of_copies(op.lines), 0, op.object);
                sums.write(of_copies(op.lines));
                held[op.page] &= ~op.lines;  // they leave all caches
                break;
            case OpKind::map_write:
                if (anew) sums.write(of_copies(~0ull));
                [[fallthrough]];
            case OpKind::map_read:
                if (anew) held[op.page] = 0;
                break;
            case OpKind::phase:
                sums.enter(op.page);
                break;
            case OpKind::write_back:  // whole lines: there from now on
                sums.move(of_copies(op.lines), 0, op.object);
                held[op.page] |= op.lines;
                break;
            case OpKind::skip:    // not in whole programs
            case OpKind::recall:  // nor are these
            case OpKind::recall_dirty:
            case OpKind::meet:
            case OpKind::hint_fault:
            case OpKind::swap_threads:
            case OpKind::touch:
            case OpKind::unmap:
                break;
        }
    });
    return std::move(sums).take();
}

}  // namespace pagelens
