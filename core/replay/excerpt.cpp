#include "core/replay/excerpt.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "core/replay/merged_recall.hpp"
#include "core/replay/page_copies.hpp"
#include "core/replay/recent_lines.hpp"

namespace pagelens {
namespace {

// Returns the lines that an op moves on all ranks. Those of a page that ranks share count once.
// Those of the zero page, and those that the kernel clears, do not count.
std::uint64_t lines_of(const Op& op, const PageCopies& copies) {
    switch (op.kind()) {
        case OpKind::fetch:
        case OpKind::write_back:
        case OpKind::stream_store:
            return std::uint64_t{copies.of(op.page)} *
                   static_cast<unsigned>(std::popcount(op.lines));
        case OpKind::skip:
            return op.lines;
        default:
            return 0;
    }
}

// Serves a pass that only counts lines.
bool all_skimmed(std::span<const Op> /*unused*/) { return true; }

class ExcerptedProgram final : public Program {
  public:
    ExcerptedProgram(const Program& whole, std::uint32_t ranks,
                     const std::vector<Excerpt>& excerpts, std::vector<std::uint32_t> groups)
        : pages_(whole.pages().begin(), whole.pages().end()),
          file_pages_(whole.file_pages().begin(), whole.file_pages().end()),
          advised_pages_(whole.advised_pages().begin(), whole.advised_pages().end()),
          instructions_(whole.instructions().begin(), whole.instructions().end()),
          objects_(whole.objects()),
          phases_(whole.phases()),
          threads_(whole.threads()),
          spaces_(whole.spaces()) {
        PageCopies copies(pages_.size(), ranks);
        std::vector<std::uint64_t> moved(phases_);
        unsigned phase = 0;
        Excerpt::Part part = Excerpt::Part::counted;
        std::uint64_t skipped = 0;  // since the last op that was kept
        std::uint64_t most = 0;
        for (const Excerpt& excerpt : excerpts) most = std::max(most, excerpt.recalled);
        const bool refills = !groups.empty();
        MergedRecall merged(refills ? pages_.size() : 0);
        RecentLines recent(most == 0 ? 0 : pages_.size(), most / ranks, std::move(groups));
        bool recalls = false;  // lines that were skipped, as soon as a stretch begins or goes on
        constexpr auto none = ~std::uint64_t{0};
        std::vector<std::uint64_t> under_way(phases_, none);  // [phase] the stretch
        const auto skips = [&](std::span<const Op> ops) {
            return most == 0 && skips_batch(ops, excerpts, moved, phase, ranks);
        };
        for_some_ops(whole, skips, [&](const Op& op) {
            const bool anew = copies.step(op);
            const std::uint64_t lines = lines_of(op, copies);
            const std::uint64_t stretch = excerpts[phase].stretch_at(moved[phase]);
            if (lines != 0) part = excerpts[phase].part(moved[phase]);
            moved[phase] += lines;
            if (part == Excerpt::Part::skipped && !gives_or_takes_pages(op) &&
                op.kind() != OpKind::phase) {
                skipped += lines;
                recalls |= lines != 0;
                if (most != 0) remember(op, anew, lines, recent);
                return;
            }
            if (skipped != 0) ops_.push_back(make_op(OpKind::skip, 0, skipped));
            skipped = 0;
            if (recalls && lines != 0 && excerpts[phase].recalled != 0) {
                const auto recall = [](const Op& used) {
                    const bool dirty = used.kind() == OpKind::write_back;
                    const OpKind kind = dirty ? OpKind::recall_dirty : OpKind::recall;
                    return make_op(kind, used.page, used.lines, used.object, used.thread);
                };
                const auto keep = [&](const Op& used) { ops_.push_back(recall(used)); };
                if (under_way[phase] == stretch) {
                    recent.for_each_since_mark(keep);
                } else if (refills) {
                    recent.for_each([&](const Op& used) { merged.add(recall(used)); });
                    merged.move_to(ops_);
                } else {
                    recent.for_each(keep);
                }
                recalls = false;
            }
            if (most != 0) remember(op, anew, lines, recent);
            if (lines != 0) {
                under_way[phase] = stretch;
                if (!recalls) recent.mark();
            }
            ops_.push_back(op);
            if (op.kind() == OpKind::phase) {
                phase = op.page;
                part = excerpts[phase].part(moved[phase]);
            }
        });
        if (skipped != 0) ops_.push_back(make_op(OpKind::skip, 0, skipped));
        ops_.shrink_to_fit();
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        return std::make_unique<BatchCursor>(ops_);
    }
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return pages_; }
    [[nodiscard]] unsigned spaces() const override { return spaces_; }
    [[nodiscard]] std::span<const VirtualRange> file_pages() const override { return file_pages_; }
    [[nodiscard]] std::span<const VirtualRange> advised_pages() const override {
        return advised_pages_;
    }
    [[nodiscard]] unsigned objects() const override { return objects_; }
    [[nodiscard]] unsigned phases() const override { return phases_; }
    [[nodiscard]] unsigned threads() const override { return threads_; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instructions_;
    }

  private:
    class BatchCursor final : public Cursor {
      public:
        explicit BatchCursor(std::span<const Op> ops) : ops_(ops) {}
        std::span<const Op> next() override {
            const auto batch = ops_.subspan(given_, std::min(ops_.size() - given_, batch_ops));
            given_ += batch.size();
            return batch;
        }
        [[nodiscard]] float done() const override {
            return static_cast<float>(given_) /
                   static_cast<float>(std::max<std::size_t>(ops_.size(), 1));
        }

      private:
        // A replay looks at its CancelFlag between batches.
        static constexpr std::size_t batch_ops = 1u << 14;
        std::span<const Op> ops_;
        std::size_t given_ = 0;
    };

    static bool gives_or_takes_pages(const Op& op) {
        return op.kind() == OpKind::map_write || op.kind() == OpKind::unmap ||
               op.kind() == OpKind::hint_fault || op.kind() == OpKind::swap_threads ||
               shows_file(op);
    }
    static void remember(const Op& op, bool anew, std::uint64_t lines, RecentLines& recent) {
        if (op.kind() == OpKind::unmap) return recent.forget_pages(op.page, op.lines);
        if (anew) return recent.forget_pages(op.page, 1);
        if (lines == 0) return;
        op.kind() == OpKind::stream_store ? recent.forget(op) : recent.use(op);
    }
    static bool shows_file(const Op& op) { return op.kind() == OpKind::map_read && op.lines != 0; }
    std::vector<VirtualPage> pages_;
    std::vector<VirtualRange> file_pages_, advised_pages_;
    std::vector<std::uint64_t> instructions_;
    unsigned objects_, phases_, threads_, spaces_;
    std::vector<Op> ops_;
};

}  // namespace

void check(const Program& program, const std::vector<Excerpt>& excerpts) {
    if (excerpts.size() != program.phases())
        throw std::invalid_argument("excerpts: one for each phase, or none");
    for (const Excerpt& excerpt : excerpts) {
        if (excerpt.period != 0 &&
            (excerpt.stretch > excerpt.period || excerpt.warm_up >= excerpt.stretch ||
             excerpt.begin > excerpt.period - excerpt.stretch ||
             (excerpt.recalled != 0 && excerpt.warm_up == 0)))
            throw std::invalid_argument(
                "excerpts: need warm_up < stretch <= period, begin <= period - stretch, and a "
                "warm_up where lines are recalled");
    }
}

std::unique_ptr<Program> excerpted(const Program& program, std::uint32_t ranks,
                                   const std::vector<Excerpt>& excerpts,
                                   std::vector<std::uint32_t> groups) {
    check(program, excerpts);
    if (!groups.empty() && groups.size() != program.threads())
        throw std::invalid_argument("groups: one for each thread, or none");
    return std::make_unique<ExcerptedProgram>(program, ranks, excerpts, std::move(groups));
}

std::vector<std::uint64_t> lines_by_phase(const Program& program, std::uint32_t ranks) {
    std::vector<std::uint64_t> lines(program.phases());
    PageCopies copies(program.pages().size(), ranks);
    unsigned phase = 0;
    for_some_ops(program, all_skimmed, [&](const Op& op) {
        copies.step(op);
        if (op.kind() == OpKind::phase) phase = op.page;
        lines[phase] += lines_of(op, copies);
    });
    return lines;
}

std::vector<Moved> moved_by_phase(const Program& program) {
    std::vector<Moved> moved(program.phases());
    unsigned phase = 0;
    // The kernel maps what the page cache has around a page of a file, as far as that lies in the
    // same block of 64 KiB (filemap_map_pages() and fault_around_bytes of Linux).
    constexpr unsigned around_bits = 4;  // of a page's number
    std::unordered_set<std::uint64_t> around;
    for_some_ops(program, all_skimmed, [&](const Op& op) {
        if (op.kind() == OpKind::phase) phase = op.page;
        Moved& of = moved[phase];
        if (op.kind() == OpKind::map_read && op.lines == 0) ++of.zero_faults;
        if (op.kind() == OpKind::map_read && op.lines != 0)
            of.file_faults += around.insert(program.pages()[op.page].raw() >> around_bits).second;
        if (op.kind() == OpKind::unmap)
            for (std::uint64_t page = op.page; page < op.page + op.lines; ++page)
                around.erase(program.pages()[page].raw() >> around_bits);
        const std::uint64_t lines = most_lines(op);
        (op.kind() == OpKind::fetch          ? of.read
         : op.kind() == OpKind::map_write    ? of.cleared
         : op.kind() == OpKind::stream_store ? of.streamed
                                             : of.written) += lines;
    });
    return moved;
}

std::vector<std::uint64_t> most_lines_by_phase(const Program& program) {
    std::vector<std::uint64_t> lines(program.phases());
    unsigned phase = 0;
    for_some_ops(program, all_skimmed, [&](const Op& op) {
        if (op.kind() == OpKind::phase) phase = op.page;
        lines[phase] += most_lines(op);
    });
    return lines;
}

}  // namespace pagelens
