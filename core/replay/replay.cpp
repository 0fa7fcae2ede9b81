#include "core/replay/replay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "core/machine/set_associative.hpp"
#include "core/replay/memory_side.hpp"

namespace pagelens {
namespace {

constexpr std::uint16_t page_clearing = 0;  // the kernel's object

void require(bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
}

void check(const Program& program, const Placement& placement, const Hierarchy& h,
           const ReplayOptions& o) {
    require(o.ranks >= 1, "ranks: must be at least 1");
    const std::uint32_t period = o.sampling.period();
    if (h.l2_sets != 0) {
        require(std::has_single_bit(h.l2_sets) && h.l2_sets >= 64 && h.l2_ways >= 1 &&
                    h.l2_ways <= lru_row && h.l2_shared_by >= 1,
                "l2: needs a power of two of at least 64 sets, and 1 to 16 ways");
        require(h.l2_sets / 64 >= 1u << o.sampling.colour_bits(),
                "sampling: more colours than the L2's index has");
    }
    require(program.pages().size() * o.ranks < 1ull << 32, "ranks: more than 2^32 pages in all");
    if (h.slots == 0) return;
    require(std::has_single_bit(h.slots) && std::has_single_bit(h.ways) && h.ways <= most_ways,
            "memory-side cache: slots and ways must be powers of two, ways at most 16");
    const std::uint32_t fewest_sets = h.slots / std::max(h.ways, o.two_way ? 2u : 1u);
    require(fewest_sets >= period, "memory-side cache: too few slots for this sampling");
    require((placement.frames() - 1) / fewest_sets < MemorySideCache::most_tags,
            "memory-side cache: more than 126 frames would share a slot");
    require(std::has_single_bit(o.map_bins), "map_bins: must be a power of two");
}

class Replay {
  public:
    Replay(const Program& program, const Placement& placement, const Hierarchy& h,
           const ReplayOptions& o)
        : program_(program),
          options_(o),
          sampling_(o.sampling),
          pages_(program, placement, o.ranks, sampling_,
                 h.l2_sets == 0 ? RankPages::Listed::covered : RankPages::Listed::coloured,
                 SlotPopulation(h.slots, std::min(o.map_bins, h.slots))),
          owners_(placement.frames(), sampling_),
          counters_(program.phases(), program.objects()),
          memory_(placement.frames(), h, o, owners_, counters_),
          l2_shared_by_(h.l2_shared_by),
          seen_(std::size_t{program.phases()} * program.objects()),
          simulated_(seen_.size()) {
        if (h.l2_sets == 0) return;
        const std::uint32_t cores = o.ranks * program.threads();
        l2_.assign((cores + l2_shared_by_ - 1) / l2_shared_by_,
                   SetAssociativeCache(h.l2_sets, h.l2_ways));
    }

    Counters run(const std::atomic<bool>& cancel) {
        const auto cursor = program_.open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
            if (cancel.load(std::memory_order_relaxed)) throw Cancelled("replay cancelled");
            for (const Op& op : ops) step(op);
        }
        if (options_.scaled) scale();
        counters_.residency = pages_.peak();
        counters_.huge_pages = pages_.huge_pages();
        counters_.small_fallbacks = pages_.small_fallbacks();
        return std::move(counters_);
    }

  private:
    void step(const Op& op) {
        switch (op.kind()) {
            case OpKind::fetch:
            case OpKind::write_back:
            case OpKind::stream_store:
                return move_lines(op);
            case OpKind::map_write:
                return pages_.map_write(op.page, [this](std::uint32_t frame) { clear(frame); });
            case OpKind::unmap:
                return pages_.unmap(op.page, op.lines);
            case OpKind::phase:
                phase_ = op.page;
                return;
            case OpKind::touch:     // no data moves
            case OpKind::map_read:  // the shared zero page: no frame
                return;
        }
    }

    void move_lines(const Op& op) {
        if (!pages_.mapped(op.page)) return;  // the zero page
        const std::size_t key = std::size_t{phase_} * counters_.objects + op.object;
        seen_[key] +=
            std::uint64_t{options_.ranks} * static_cast<unsigned>(std::popcount(op.lines));
        pages_.for_sampled(op.page, op.lines, [&](SampledPage page, std::uint64_t lines) {
            const bool counted = sampling_.covers(page.frame);
            if (counted) {
                owners_.set(page.frame, op.object);
                simulated_[key] += static_cast<unsigned>(std::popcount(lines));
            }
            if (!l2_.empty() && op.kind() != OpKind::stream_store)
                return through_l2(op, page, lines, counted);
            if (!l2_.empty()) past_l2(op, page, lines, counted);
            if (counted)
                memory_.access(phase_, op.object, page.frame, lines, op.kind() != OpKind::fetch);
        });
    }

    SetAssociativeCache& l2_of(const Op& op, SampledPage page) {
        const std::uint32_t core = page.rank * program_.threads() + op.thread;
        return l2_[core / l2_shared_by_];
    }

    // A non-temporal store takes the line out of the cache, as the compiler has it do above.
    void past_l2(const Op& op, SampledPage page, std::uint64_t lines, bool counted) {
        SetAssociativeCache& l2 = l2_of(op, page);
        std::uint64_t dirty = 0;
        for (std::uint64_t rest = lines; rest != 0; rest &= rest - 1) {
            const auto line = static_cast<unsigned>(std::countr_zero(rest));
            if (l2.remove(std::uint64_t{page.frame} * lines_per_page + line)) dirty |= 1ull << line;
        }
        if (dirty == 0 || !counted) return;
        count(op.object, Component::l2_write_backs, dirty);
        memory_.access(phase_, op.object, page.frame, dirty, true);
    }

    // A dirty line from above that misses is kept without a fetch: it is whole.
    void through_l2(const Op& op, SampledPage page, std::uint64_t lines, bool counted) {
        SetAssociativeCache& l2 = l2_of(op, page);
        const bool write = op.kind() == OpKind::write_back;
        const LruResult result = l2.access_page(page.frame, lines, write);
        if (counted) {
            count(op.object, Component::l2_accesses, lines);
            if (!write && result.missed != 0) {
                count(op.object, Component::l2_misses, result.missed);
                memory_.access(phase_, op.object, page.frame, result.missed, false);
            }
        }
        for (std::uint64_t rest = result.dirty; rest != 0;) {
            const std::uint64_t victim = l2.victim_page(page.frame, std::countr_zero(rest));
            std::uint64_t same = 0;  // the lines whose victims are of this one page, mostly all
            for (std::uint64_t others = rest; others != 0; others &= others - 1) {
                const int line = std::countr_zero(others);
                if (l2.victim_page(page.frame, line) == victim) same |= 1ull << line;
            }
            rest &= ~same;
            const auto frame = static_cast<std::uint32_t>(victim);
            if (!sampling_.covers(frame)) continue;
            const std::uint16_t owner = owners_.of(frame);
            count(owner, Component::l2_write_backs, same);
            memory_.access(phase_, owner, frame, same, true);
        }
    }

    // The kernel clears a page before it hands it out.
    void clear(std::uint32_t frame) {
        seen_[std::size_t{phase_} * counters_.objects + page_clearing] += lines_per_page;
        if (!sampling_.covers(frame)) return;
        simulated_[std::size_t{phase_} * counters_.objects + page_clearing] +=
            static_cast<unsigned>(std::popcount(sampling_.lines(frame)));
        owners_.set(frame, page_clearing);
        memory_.access(phase_, page_clearing, frame, sampling_.lines(frame), true);
    }

    void count(std::uint16_t object, Component component, std::uint64_t lines) {
        counters_.row(phase_, object)[static_cast<std::size_t>(component)] +=
            static_cast<unsigned>(std::popcount(lines));
    }

    // The one place where sampled counts become those of the whole node: by the lines that a phase
    // moved of an object over those of them that were simulated. (A ratio estimate: how many pages
    // of a small object happen to be sampled drops out.)
    void scale() {
        const double nominal = sampling_.factor();
        std::vector<std::uint64_t> seen(counters_.objects), simulated(counters_.objects);
        const auto ratio = [&](std::uint64_t all, std::uint64_t part) {
            return part == 0 ? nominal : static_cast<double>(all) / static_cast<double>(part);
        };
        const auto multiply = [](std::uint64_t* values, std::size_t n, double factor) {
            for (std::size_t i = 0; i < n; ++i) {
                values[i] = static_cast<std::uint64_t>(
                    std::llround(static_cast<double>(values[i]) * factor));
            }
        };
        for (std::size_t key = 0; key < seen_.size(); ++key) {
            multiply(&counters_.table[key * components], components,
                     ratio(seen_[key], simulated_[key]));
            seen[key % counters_.objects] += seen_[key];
            simulated[key % counters_.objects] += simulated_[key];
        }
        for (std::size_t object = 0; object < counters_.objects; ++object) {
            multiply(&counters_.collisions[object * counters_.objects], counters_.objects,
                     ratio(seen[object], simulated[object]));
        }
    }

    const Program& program_;
    const ReplayOptions& options_;
    Sampling sampling_;
    RankPages pages_;
    FrameOwners owners_;
    Counters counters_;
    MemorySide memory_;
    std::uint32_t l2_shared_by_;
    std::vector<SetAssociativeCache> l2_;
    unsigned phase_ = 0;
    std::vector<std::uint64_t> seen_;       // [phase][object] lines moved by all ranks
    std::vector<std::uint64_t> simulated_;  // of these, in the sample
};

}  // namespace

Counters replay(const Program& program, const Placement& placement, const Hierarchy& hierarchy,
                const ReplayOptions& options, const std::atomic<bool>& cancel) {
    check(program, placement, hierarchy, options);
    return Replay(program, placement, hierarchy, options).run(cancel);
}

}  // namespace pagelens
