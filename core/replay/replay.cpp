#include "core/replay/replay.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>

#include "core/accesses/sweep_blocks.hpp"
#include "core/replay/conflict_watch.hpp"
#include "core/replay/memory_side.hpp"
#include "core/replay/rows_behind.hpp"
#include "core/replay/sample_scale.hpp"
#include "core/replay/shared_caches.hpp"
#include "core/replay/streamed_l2s.hpp"

namespace pagelens {
namespace {

constexpr std::uint32_t most_cores = 65535;

void require(bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
}

void check(const Program& program, const Placement& placement, const Hierarchy& h,
           const ReplayOptions& o) {
    require(o.ranks >= 1 && o.ranks * std::uint64_t{program.threads()} <= most_cores,
            "ranks: at least 1, and with their threads at most 65535");
    const std::uint32_t period = o.sampling.period();
    if (h.l2_sets != 0) {
        require(std::has_single_bit(h.l2_sets) && h.l2_sets >= 64 && h.l2_ways >= 1 &&
                    h.l2_ways <= lru_row && h.l2_shared_by >= 1,
                "l2: needs a power of two of at least 64 sets, and 1 to 16 ways");
        require(h.l2_sets / 64 >= 1u << o.sampling.colour_bits(),
                "sampling: more colours than the L2's index has");
    }
    if (h.caches != nullptr) {
        require(h.l2_sets == 0, "l2: is in the hierarchy of caches already");
        require(h.caches->fewest_sets() / 64 >= 1u << o.sampling.colour_bits(),
                "sampling: more colours than the index of a cache has");
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
    if (o.rows == nullptr) return;
    require(o.rows->stretches != nullptr && o.rows->stretches->of_same_pages(program) &&
                o.rows->lines.size() == program.phases(),
            "rows: the stretches must be of the same program");
    require(!o.rows->drams.empty(), "rows: at least one DRAM");
}

// The pages of all ranks: about as many frames are used, if pages that were given back are few.
std::size_t job_pages(const Program& program, const ReplayOptions& options) {
    return program.pages().size() * options.ranks;
}
std::size_t sampled_pages(const Program& program, const ReplayOptions& options) {
    return job_pages(program, options) * options.sampling.members() / options.sampling.period();
}

// The blocks of a program of declared loops, where a replay can go through these.
std::unique_ptr<SweepBlocks> blocks_of(const Program& program, const Placement& placement,
                                       const Hierarchy& h, const ReplayOptions& o) {
    if (placement.shuffle_above() < 1 || h.caches != nullptr) return nullptr;
    auto blocks = SweepBlocks::of(program);
    if (blocks != nullptr && o.rows != nullptr && !RowsBehind::can_pass(*blocks, o.ranks))
        return nullptr;
    return blocks;
}

class Replay {
  public:
    // `may_stream`: whether L2s may be followed by what streams do to them.
    Replay(const Program& program, const Placement& placement, const Hierarchy& h,
           const ReplayOptions& o, bool may_stream)
        : program_(program),
          options_(o),
          sampling_(o.sampling),
          blocks_(blocks_of(program, placement, h, o)),
          streamed_(may_stream ? StreamedL2s::of(blocks_.get(), h, o, program.threads()) : nullptr),
          pages_(program, placement, o.ranks, sampling_,
                 streamed_ || (h.l2_sets == 0 && h.caches == nullptr) ? RankPages::Listed::covered
                                                                      : RankPages::Listed::coloured,
                 SlotPopulation(h.slots, std::min(o.map_bins, h.slots), job_pages(program, o))),
          owners_(placement.frames(), sampling_, sampled_pages(program, o)),
          counters_(program.phases(), program.objects()),
          memory_(placement.frames(), h, o, owners_, counters_, sampled_pages(program, o)),
          scale_(program.phases(), program.objects()) {
        if (placement.shuffle_above() < 1 && h.slots != 0) {
            watch_.emplace(placement.shuffle_above(), sampling_.lines_in(h.slots));
        }
        const std::uint32_t threads = program.threads(), cores = o.ranks * threads;
        if (o.rows != nullptr && h.slots != 0)
            rows_.emplace(
                *o.rows, pages_, static_cast<std::uint32_t>(program.pages().size()), o.ranks,
                threads, h.slots / h.ways, h.ways,
                blocks_ && (h.l2_sets == 0 || streamed_) ? blocks_->whole_walks() : nullptr,
                counters_);
        if (h.caches != nullptr)
            caches_.emplace(*h.caches, cores, sampling_, owners_, memory_, counters_);
        if (h.l2_sets == 0 || streamed_) return;
        l2_.emplace(h.l2_sets, h.l2_ways, (cores + h.l2_shared_by - 1) / h.l2_shared_by);
        for (std::uint32_t thread = 0; thread < threads; ++thread) {
            for (std::uint32_t rank = 0; rank < o.ranks; ++rank) {
                l2_of_.push_back(
                    static_cast<std::uint16_t>((rank * threads + thread) / h.l2_shared_by));
            }
        }
    }

    // Returns nothing if L2s cannot be followed by streams on this placement.
    std::optional<Counters> run(const UnderWay& under_way) {
        // A bank of L2s needs the ops of half of all pages, which are as fast to make all.
        if (blocks_ == nullptr || l2_)
            run_ops(under_way);
        else if (!run_blocks(*blocks_, under_way))
            return std::nullopt;
        if (caches_) caches_->leave(phase_);
        if (rows_) rows_->finish();
        if (options_.scaled) scale_.scale(counters_, sampling_.factor());
        counters_.residency = pages_.peak();
        counters_.huge_pages = pages_.huge_pages();
        counters_.small_fallbacks = pages_.small_fallbacks();
        return std::move(counters_);
    }

  private:
    static constexpr std::size_t far = 16, near = 8;  // ops between a prefetch and its use

    void run_ops(const UnderWay& under_way) {
        const auto cursor = program_.open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
            under_way.at(cursor->done());
            run_ops(ops);
            if (watch_ && watch_->look(counters_)) shuffle();
        }
    }

    void run_ops(std::span<const Op> ops) {
        for (const Op& op : ops.first(std::min(far, ops.size()))) prefetch(op);
        for (const Op& op : ops.first(std::min(near, ops.size()))) prefetch_frames(op);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i + far < ops.size()) prefetch(ops[i + far]);
            if (i + near < ops.size()) prefetch_frames(ops[i + near]);
            step(ops[i]);
        }
    }

    // Does the same block by block: hands out its frames, counts its lines, and goes through the
    // ops of those pages alone whose frames are simulated. Returns false if it had to give up.
    bool run_blocks(SweepBlocks& blocks, const UnderWay& under_way) {
        PageSet wanted(program_.pages().size()), all(rows_ ? program_.pages().size() : 0);
        if (rows_) all.add(0, program_.pages().size());
        while (true) {
            const bool more = blocks.next();
            for (const Op& op : blocks.before()) {
                step(op);
                if (op.kind() == OpKind::unmap) wanted.remove(op.page, op.page + op.lines);
            }
            if (!more) return true;
            under_way.at(blocks.done());
            clears_.clear();
            next_clear_ = 0;
            const std::span<const std::uint32_t> maps = blocks.maps();
            if (rows_ && !rows_->passes(blocks)) {
                time_rows(blocks.of(all), wanted);
            } else {
                take_frames(maps, wanted, [&](std::uint32_t page) {
                    if (rows_) rows_->maps_within(page);
                });
                if (rows_) rows_->pass(blocks);
            }
            for (std::uint16_t object = 0; object < blocks.lines().size(); ++object)
                scale_.moved(phase_, object, options_.ranks * blocks.lines()[object]);
            if (!streamed_) {
                run_wanted(blocks.of(wanted));
            } else {
                if (!streamed_->take(blocks, wanted, pages_)) return false;
                run_events(streamed_->events());
            }
        }
    }

    // A stretch of rows reaches into the block, and follows its ops one by one.
    void time_rows(std::span<const Op> ops, PageSet& wanted) {
        for (const Op& op : ops.first(std::min(far, ops.size()))) prefetch(op);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i + far < ops.size()) prefetch(ops[i + far]);
            if (ops[i].kind() == OpKind::map_write)
                take_frames(std::span(&ops[i].page, 1), wanted,
                            [&](std::uint32_t page) { rows_->mapped(page); });
            rows_->done(ops[i]);
        }
    }

    void run_wanted(std::span<const Op> ops) {
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i + 2 * far < ops.size()) pages_.prefetch_listed(ops[i + 2 * far].page);
            if (i + far < ops.size()) prefetch_memory(ops[i + far].page);
            if (ops[i].kind() == OpKind::map_write)
                clear_mapped(ops[i].page);
            else
                move_sampled(ops[i]);
        }
    }

    void run_events(std::span<const StreamedL2s::Event> events) {
        for (std::size_t i = 0; i < events.size(); ++i) {
            if (i + far < events.size()) prefetch_memory(events[i + far].page);
            happen(events[i]);
        }
    }
    // Does what through_l2() and past_l2() do with a page's sampled lines.
    void happen(const StreamedL2s::Event& event) {
        using enum StreamedL2s::What;
        if (event.what == map) return clear_mapped(event.page);
        const std::uint32_t frame = pages_.frame(event.page, 0);
        if (!sampling_.covers(frame)) return;
        const std::uint64_t lines = sampling_.lines(frame);
        if (event.what == leave) {
            count(event.object, Component::l2_write_backs, lines);
            return memory_.access(phase_, event.object, frame, lines, true);
        }
        owners_.set(frame, event.object);
        simulate(event.object, lines);
        if (event.what == stream_store)
            return memory_.access(phase_, event.object, frame, lines, true);
        count(event.object, Component::l2_accesses, lines);
        if (event.what == write_back) return;
        count(event.object, Component::l2_misses, lines);
        memory_.access(phase_, event.object, frame, lines, false);
    }

    // Pages get their frames; taken(page) for each. What of these is sampled is cleared when the
    // block's ops come there.
    template <class Taken>
    void take_frames(std::span<const std::uint32_t> pages, PageSet& wanted, Taken&& taken) {
        const std::uint64_t given = pages_.map_each(
            pages,
            [&](std::uint32_t page, std::uint32_t first, std::uint32_t frames) {
                clears_.push_back({page, first, frames});
                wanted.add(page);
            },
            [&](std::uint32_t page) {
                if (pages_.listed(page)) wanted.add(page);
                taken(page);
            });
        count_cleared(given);
    }
    void clear_mapped(std::uint32_t page) {
        for (; next_clear_ < clears_.size() && clears_[next_clear_].page == page; ++next_clear_) {
            const Cleared& cleared = clears_[next_clear_];
            for (std::uint32_t i = 0; i < cleared.frames; ++i) clear_sampled(cleared.first + i);
        }
    }
    [[gnu::always_inline]] void prefetch_memory(std::uint32_t page) const {
        if (options_.ranks == 1) memory_.prefetch(pages_.frame(page, 0));
    }

    static bool has_page(const Op& op) {
        return op.kind() != OpKind::phase && op.kind() != OpKind::meet;
    }
    // gcc takes a function that only prefetches for one without any effect, and drops the calls
    // that it has not inlined by then.
    [[gnu::always_inline]] void prefetch(const Op& op) {
        if (!has_page(op)) return;
        pages_.prefetch_list(op.page);
        if (rows_) rows_->prefetch(op.page);
        if (op.kind() != OpKind::map_write) return;
        pages_.prefetch_to_map(op.page);
        if (rows_) rows_->prefetch_to_map(op.page);
    }
    [[gnu::always_inline]] void prefetch_frames(const Op& op) {
        if (has_page(op)) pages_.prefetch_frames(op.page);
    }

    void step(const Op& op) {
        switch (op.kind()) {
            case OpKind::fetch:
            case OpKind::write_back:
            case OpKind::stream_store:
                move_lines(op);
                if (rows_) rows_->done(op);
                return;
            case OpKind::map_write:
                map(op);
                if (rows_) rows_->done(op);
                return;
            case OpKind::unmap:
                if (rows_) rows_->unmapping(op.page, op.lines);
                return pages_.unmap(op.page, op.lines);
            case OpKind::phase:
                if (caches_) caches_->leave(phase_);
                phase_ = op.page;
                if (rows_) rows_->enter(phase_);
                return;
            case OpKind::map_read:
                return read_file(op);
            case OpKind::touch:   // no data moves
            case OpKind::skip:    // not in whole programs
            case OpKind::recall:  // nor are these
            case OpKind::recall_dirty:
            case OpKind::meet:
            case OpKind::hint_fault:    // not on machines with a memory-side cache
            case OpKind::swap_threads:  // nor are these
                return;
        }
    }

    void move_lines(const Op& op) {
        if (!pages_.mapped(op.page)) return;  // the zero page
        scale_.moved(
            phase_, op.object,
            std::uint64_t{options_.ranks} * static_cast<unsigned>(std::popcount(op.lines)));
        move_sampled(op);
        if (caches_ && caches_->due()) caches_->flush(phase_);
    }

    void move_sampled(const Op& op) {
        pages_.for_sampled(op.page, op.lines,
                           [&](std::span<const RankPage> pages, std::uint64_t lines) {
                               if (caches_) {
                                   to_caches(op, pages, lines);
                               } else if (!l2_) {
                                   for (const RankPage& page : pages) {
                                       use(op, page, lines);
                                       memory_.access(phase_, op.object, page.frame, lines,
                                                      op.kind() != OpKind::fetch);
                                   }
                               } else {
                                   if (together_ && lines != sampling_.lines(pages[0].frame))
                                       part();
                                   to_l2(op, pages, lines);
                               }
                           });
    }

    // All frames of the sampled colours share the caches' sets.
    void to_caches(const Op& op, std::span<const RankPage> pages, std::uint64_t lines) {
        const AccessKind kind = op.kind() == OpKind::fetch        ? AccessKind::read
                                : op.kind() == OpKind::write_back ? AccessKind::write_back
                                                                  : AccessKind::stream_store;
        for (const RankPage& page : pages) {
            if (page.watched != 0) use(op, page, lines);
            push(lines, page.frame, page.rank * program_.threads() + op.thread, kind);
        }
    }

    void push(std::uint64_t lines, std::uint32_t frame, std::uint32_t core, AccessKind kind) {
        caches_->push(lines, frame, core, kind);
        scale_.through_caches(phase_, static_cast<unsigned>(std::popcount(lines)));
    }

    // A page of the sample is used.
    void use(const Op& op, const RankPage& page, std::uint64_t lines) {
        owners_.set(page.frame, op.object);
        simulate(op.object, lines);
    }

    void simulate(std::uint16_t object, std::uint64_t lines) {
        scale_.simulated(phase_, object, static_cast<unsigned>(std::popcount(lines)));
    }

    // Returns which L2 each rank's thread of this op has.
    [[nodiscard]] const std::uint16_t* l2_of(const Op& op) const {
        return &l2_of_[std::size_t{op.thread} * options_.ranks];
    }

    void to_l2(const Op& op, std::span<const RankPage> pages, std::uint64_t lines) {
        if (op.kind() != OpKind::stream_store) return through_l2(op, pages, lines);
        for (const RankPage& page : pages) past_l2(op, page, lines);
    }

    // As long as each op moves all of a page's sampled lines or none, the sets of these lines are
    // equal, and the lowest line stands for all of them: kept() leaves it alone, all() adds the
    // others again.
    [[nodiscard]] std::uint64_t kept(std::uint64_t lines) const {
        return together_ ? lines & -lines : lines;
    }
    [[nodiscard]] std::uint64_t all(std::uint64_t of_kept, std::uint64_t frame_lines) const {
        return together_ && of_kept != 0 ? frame_lines : of_kept;
    }
    // An op moves some of the sampled lines alone, so each line has sets of its own from now on.
    void part() {
        together_ = false;
        for (std::uint32_t page_set = 0; page_set < l2_->page_sets(); ++page_set) {
            const std::uint64_t lines = sampling_.lines(page_set);
            if (lines == 0) continue;
            const auto lowest = static_cast<unsigned>(std::countr_zero(lines));
            for (std::uint64_t rest = lines & (lines - 1); rest != 0; rest &= rest - 1)
                l2_->copy_line(page_set, lowest, static_cast<unsigned>(std::countr_zero(rest)));
        }
    }

    // A non-temporal store takes the line out of the cache, as the compiler has it do above.
    void past_l2(const Op& op, const RankPage& page, std::uint64_t lines) {
        std::uint64_t dirty = 0;
        for (std::uint64_t rest = kept(lines); rest != 0; rest &= rest - 1) {
            const auto line = static_cast<unsigned>(std::countr_zero(rest));
            if (l2_->remove(l2_of(op)[page.rank], page.frame, line)) dirty |= 1ull << line;
        }
        dirty = all(dirty, lines);
        if (page.watched == 0) return;
        use(op, page, lines);
        if (dirty != 0) {
            count(op.object, Component::l2_write_backs, dirty);
            memory_.access(phase_, op.object, page.frame, dirty, true);
        }
        memory_.access(phase_, op.object, page.frame, lines, true);
    }

    // A dirty line from above that misses is kept without a fetch: it is whole.
    void through_l2(const Op& op, std::span<const RankPage> pages, std::uint64_t lines) {
        const bool write = op.kind() == OpKind::write_back;
        const auto events = l2_->access(pages, l2_of(op), kept(lines), write);
        for (auto at = events.begin(); at != events.end();) {
            const RankPage& page = pages[at->page];
            const auto end = std::find_if(at, events.end(),
                                          [&](const LruEvent& e) { return e.page != at->page; });
            if (page.watched != 0) {
                use(op, page, lines);
                count(op.object, Component::l2_accesses, lines);
                std::uint64_t missed = 0;
                for (auto event = at; event != end; ++event)
                    missed |= std::uint64_t{event->missed} << event->line;
                missed = all(missed, lines);
                if (!write && missed != 0) {
                    count(op.object, Component::l2_misses, missed);
                    memory_.access(phase_, op.object, page.frame, missed, false);
                }
            }
            write_back_victims(page.frame, lines, {at, end});
            at = end;
        }
    }

    // The dirty lines that the `moved` lines of one page pushed out.
    void write_back_victims(std::uint32_t frame, std::uint64_t moved,
                            std::span<const LruEvent> events) {
        for (std::size_t i = 0; i < events.size();) {
            const std::uint32_t victim = events[i].victim;
            std::uint64_t lines = 0;  // whose victims are neighbours of one page, mostly all
            for (; i < events.size() && events[i].victim == victim; ++i)
                lines |= 1ull << events[i].line;
            if (victim == 0) continue;
            lines = all(lines, moved);
            const std::uint32_t from = l2_->victim_frame(frame, victim);
            const std::uint16_t owner = owners_.of(from);
            count(owner, Component::l2_write_backs, lines);
            memory_.access(phase_, owner, from, lines, true);
        }
    }

    // What used the frames before has its lines through the caches before they change hands, and
    // the kernel's are its own.
    void map(const Op& op) {
        if (pages_.writable(op.page)) return;
        if (rows_) rows_->unmapping(op.page, 1);
        if (caches_) caches_->flush(phase_);
        pages_.map_write(op.page,
                         [&](std::uint32_t rank, std::uint32_t first, std::uint32_t frames) {
                             for (std::uint32_t i = 0; i < frames; ++i)
                                 clear(first + i, rank * program_.threads() + op.thread);
                         });
        if (rows_) rows_->mapped(op.page);
        if (caches_) caches_->flush(phase_);
    }

    // What the page cache holds was read from the disk long before, so nothing is cleared.
    void read_file(const Op& op) {
        if (op.lines == 0 || pages_.mapped(op.page)) return;
        pages_.map_read(op.page, static_cast<std::uint32_t>(op.lines - 1));
        if (rows_) rows_->shows_file(op.page);
    }

    // The kernel clears a page before it hands it out.
    void clear(std::uint32_t frame, std::uint32_t core) {
        count_cleared(1);
        const std::uint64_t lines = sampling_.lines(frame);
        if (!caches_) return clear_sampled(frame);
        if (sampling_.covers(frame)) {
            simulate(page_clearing, lines);
            owners_.set(frame, page_clearing);
        }
        if (lines != 0) push(lines, frame, core, AccessKind::stream_store);
    }
    void count_cleared(std::uint64_t frames) {
        scale_.past_caches(phase_, page_clearing, frames * lines_per_page);
        scale_.to_caches(phase_, frames * static_cast<unsigned>(std::popcount(sampling_.among())));
    }
    // Past all caches but the memory-side one.
    void clear_sampled(std::uint32_t frame) {
        if (!sampling_.covers(frame)) return;
        const std::uint64_t lines = sampling_.lines(frame);
        simulate(page_clearing, lines);
        owners_.set(frame, page_clearing);
        memory_.access(phase_, page_clearing, frame, lines, true);
    }

    // The pages are copied. (What the L2 caches hold of their old frames stays until it is
    // evicted.)
    void shuffle() {
        if (caches_) caches_->flush(phase_);
        if (rows_) rows_->gone();
        pages_.shuffle([this](std::uint32_t from, std::uint32_t to) {
            for (const std::uint32_t frame : {from, to}) {
                scale_.past_caches(phase_, page_clearing, lines_per_page);
                if (!sampling_.covers(frame)) continue;
                simulate(page_clearing, sampling_.lines(frame));
                owners_.set(frame, page_clearing);
                memory_.access(phase_, page_clearing, frame, sampling_.lines(frame), frame == to);
            }
        });
        if (rows_) rows_->back();
    }

    void count(std::uint16_t object, Component component, std::uint64_t lines) {
        counters_.row(phase_, object)[static_cast<std::size_t>(component)] +=
            static_cast<unsigned>(std::popcount(lines));
    }

    const Program& program_;
    const ReplayOptions& options_;
    Sampling sampling_;
    std::unique_ptr<SweepBlocks> blocks_;    // null: op by op
    std::unique_ptr<StreamedL2s> streamed_;  // null: l2_, if the machine has L2s here
    RankPages pages_;
    FrameOwners owners_;
    Counters counters_;
    MemorySide memory_;
    std::optional<LruBank> l2_;
    bool together_ = true;
    std::vector<std::uint16_t> l2_of_;  // [thread][rank]
    std::optional<SharedCaches> caches_;
    unsigned phase_ = 0;
    std::optional<ConflictWatch> watch_;
    std::optional<RowsBehind> rows_;
    SampleScale scale_;
    // Frames that a page of the block has got, some of them sampled, in the order of the maps.
    struct Cleared {
        std::uint32_t page, first, frames;
    };
    std::vector<Cleared> clears_;
    std::size_t next_clear_ = 0;  // where the block's ops are
};

}  // namespace

Counters replay(const Program& program, const Placement& placement, const Hierarchy& hierarchy,
                const ReplayOptions& options, const UnderWay& under_way) {
    check(program, placement, hierarchy, options);
    for (bool may_stream = true;; may_stream = false) {
        Replay all(program, placement, hierarchy, options, may_stream);
        if (auto counters = all.run(under_way)) return *std::move(counters);
    }
}

}  // namespace pagelens
