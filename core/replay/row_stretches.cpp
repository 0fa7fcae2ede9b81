#include "core/replay/row_stretches.hpp"

namespace pagelens {

RowStretches::RowStretches(const Program& in_order, const std::vector<Excerpt>& excerpts)
    : stretches_(in_order.phases()), lines_(in_order.phases()), pages_(in_order.pages().size()) {
    check(in_order, excerpts);
    if (pages_ != 0) {
        first_page_ = in_order.pages().front().raw();
        last_page_ = in_order.pages().back().raw();
    }
    using Part = Excerpt::Part;
    std::vector<Part> before(in_order.phases(), Part::skipped);  // of each phase's latest op
    unsigned phase = 0;
    const auto skips = [&](std::span<const Op> ops) {
        return skips_batch(ops, excerpts, lines_, phase, 1);
    };
    for_some_ops(in_order, skips, [&](const Op& op) {
        if (op.kind() == OpKind::phase) phase = op.page;
        const std::uint64_t lines = most_lines(op);
        if (lines == 0) return;
        const std::uint64_t at = lines_[phase];
        const Part part = excerpts[phase].part(at);
        lines_[phase] += lines;
        std::vector<RowStretch>& of_phase = stretches_[phase];
        // One that follows another at once has a beginning of its own: its warm-up.
        const bool begins =
            part != Part::skipped && (before[phase] == Part::skipped ||
                                      (part == Part::warm_up && before[phase] == Part::counted));
        if (begins) of_phase.push_back({at, ~0ull, {}});
        if (part == Part::counted) {
            if (before[phase] != Part::counted) of_phase.back().counted_from = at;
            counted_ += lines;
        }
        if (part != Part::skipped) of_phase.back().ops.push_back(op);
        before[phase] = part;
    });
}

bool RowStretches::of_same_pages(const Program& other) const {
    return other.phases() == phases() && other.pages().size() == pages_ &&
           (pages_ == 0 || (other.pages().front().raw() == first_page_ &&
                            other.pages().back().raw() == last_page_));
}

}  // namespace pagelens
