#include "core/replay/physical_lines.hpp"

#include <bit>
#include <stdexcept>

namespace pagelens {

PhysicalLines::PhysicalLines(const Program& program, const Placement& placement,
                             const PrivateL2& l2)
    : cursor_(program.open()),
      pages_(program, placement, 1, Sampling(), RankPages::Listed::covered, SlotPopulation(0, 0)),
      l2_shape_(l2),
      frames_(program.pages().size(), no_frame) {
    if (l2.sets == 0) return;
    if (!std::has_single_bit(l2.sets) || l2.ways < 1 || l2.shared_by < 1) {
        throw std::invalid_argument("l2: needs a power of two of sets, and at least one way");
    }
    l2_.assign((program.threads() + l2.shared_by - 1) / l2.shared_by,
               SetAssociativeCache(l2.sets, l2.ways));
}

std::span<const std::uint64_t> PhysicalLines::next() {
    lines_.clear();
    while (lines_.empty()) {
        const std::span<const Op> ops = cursor_->next();
        if (ops.empty()) break;
        for (const Op& op : ops) step(op);
    }
    return lines_;
}

void PhysicalLines::step(const Op& op) {
    switch (op.kind()) {
        case OpKind::fetch:
        case OpKind::write_back:
        case OpKind::stream_store:
            if (!pages_.mapped(op.page)) return;  // the zero page
            pages_.for_sampled(op.page, op.lines,
                               [&](std::span<const RankPage> pages, std::uint64_t lines) {
                                   for (const RankPage& page : pages) move(op, page.frame, lines);
                               });
            return;
        case OpKind::map_write:
            pages_.map_write(
                op.page, [this](std::uint32_t, std::uint32_t first, std::uint32_t frames) {
                    const std::uint64_t line = std::uint64_t{first} * lines_per_page;
                    for (std::uint64_t i = 0; i < std::uint64_t{frames} * lines_per_page; ++i)
                        emit(line + i, true);
                });
            frames_[op.page] = pages_.frame(op.page, 0);
            return;
        case OpKind::unmap:
            pages_.unmap(op.page, op.lines);
            return;
        case OpKind::map_read:
            if (op.lines == 0) return;
            pages_.map_read(op.page, static_cast<std::uint32_t>(op.lines - 1));
            frames_[op.page] = pages_.frame(op.page, 0);
            return;
        case OpKind::touch:   // no data moves
        case OpKind::skip:    // not in whole programs
        case OpKind::recall:  // nor are these
        case OpKind::recall_dirty:
        case OpKind::phase:
        case OpKind::meet:
        case OpKind::hint_fault:
        case OpKind::swap_threads:
            return;
    }
}

void PhysicalLines::move(const Op& op, std::uint32_t frame, std::uint64_t lines) {
    const bool write = op.kind() != OpKind::fetch;
    for (std::uint64_t left = lines; left != 0; left &= left - 1) {
        const std::uint64_t line = std::uint64_t{frame} * lines_per_page +
                                   static_cast<std::uint64_t>(std::countr_zero(left));
        if (l2_.empty()) {
            emit(line, write);
            continue;
        }
        SetAssociativeCache& l2 = l2_[op.thread / l2_shape_.shared_by];
        if (op.kind() == OpKind::stream_store) {
            if (l2.remove(line)) emit(line, true);
            emit(line, true);
            continue;
        }
        const CacheAccess here = l2.access(line, write);
        if (!here.hit && !write) emit(line, false);
        if (here.victim_dirty) emit(here.victim, true);
    }
}

}  // namespace pagelens
