#include "core/replay/node_replay.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/replay/cache_groups.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/replay.hpp"

namespace pagelens {
namespace {

constexpr std::uint16_t never_owned = 0xffff;
constexpr std::uint16_t page_clearing = 0;  // the kernel's object, of page tables too
// Lines that go through the caches, and what they ask of memory through DRAM, at a time. DRAM
// begins each time when the lines before are all there, so many; and so few that they stay in the
// host's caches.
constexpr std::uint64_t batch_lines = 1u << 15;
// Of a sampled phase, these large pages go through DRAM as they are cleared: the first ones, then
// one in so many; of each so many frames at most.
constexpr std::uint64_t first_large = 4, large_distance = 32;
constexpr std::uint32_t most_large_frames = 512;

// Page tables that a rank needs at most: of 4 KiB pages, and the levels above them.
std::uint32_t tables_of(const Program& program) {
    std::size_t tables = 1;
    for (unsigned level = 1; level < table_levels; ++level) {
        std::unordered_set<std::uint64_t> of_level;
        for (const VirtualPage page : program.pages()) of_level.insert(page.raw() >> (9 * level));
        tables += of_level.size();
    }
    return static_cast<std::uint32_t>(tables);
}

PageSize size_of(unsigned order) {
    return order == small_order  ? PageSize::small
           : order == huge_order ? PageSize::large
                                 : PageSize::huge;
}

class NodeReplay {
  public:
    NodeReplay(const Program& program, const Placement& placement, const NodeModel& model,
               const NodeReplayOptions& options)
        : program_(program),
          options_(options),
          pages_(program, placement, options.ranks, Sampling(), RankPages::Listed::covered,
                 SlotPopulation(0, 0), model.tlb ? tables_of(program) : 0),
          caches_(model.caches, options.ranks * program.threads()),
          drams_(model.drams),
          counters_{std::vector<NodePhase>(program.phases()), 0, 0} {
        for (NodePhase& phase : counters_.phases) {
            phase.large_drams.resize(model.drams.size());
            phase.object_reads.resize(program.objects());
            phase.object_writes.resize(program.objects());
        }
        const std::uint32_t cores = options.ranks * program.threads();
        if (model.tlb) {
            tlbs_.assign(cores, *model.tlb);
            tables_.resize(options.ranks);
        }
        if (!drams_.empty()) requests_.resize(cores);
        large_pages_.resize(program.phases());
        before_ = stock();
    }

    NodeCounters run(const std::atomic<bool>& cancel) {
        enter(0);
        const auto cursor = program_.open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
            for (const Op& op : ops) {
                step(op);
                if (caches_.pending() < batch_lines) continue;
                flush();
                if (cancel.load(std::memory_order_relaxed)) throw Cancelled("replay cancelled");
            }
        }
        flush();
        counters_.huge_pages = pages_.huge_pages();
        counters_.small_fallbacks = pages_.small_fallbacks();
        return std::move(counters_);
    }

  private:
    using Part = Excerpt::Part;

    void step(const Op& op) {
        switch (op.kind()) {
            case OpKind::fetch:
                return move_lines(op, AccessKind::read);
            case OpKind::write_back:
                return move_lines(op, AccessKind::write_back);
            case OpKind::stream_store:
                return move_lines(op, AccessKind::stream_store);
            case OpKind::touch:
                if (pages_.mapped(op.page) && part_ != Part::skipped) translate(op, 1);
                return;
            case OpKind::map_write:
                return map(op);
            case OpKind::unmap:
                return unmap(op);
            case OpKind::phase:
                flush();
                phase_ = op.page;
                enter(0);
                return;
            case OpKind::skip:
                enter(op.lines);
                return;
            case OpKind::map_read:
                return read_file(op);
        }
    }

    NodePhase& phase() { return counters_.phases[phase_]; }
    [[nodiscard]] bool samples() const { return options_.sets != all_line_sets; }
    [[nodiscard]] std::uint32_t core_of(std::uint32_t rank, const Op& op) const {
        return rank * program_.threads() + op.thread;
    }

    // All ranks move `lines` more; says whether they are simulated.
    bool enter(std::uint64_t lines) {
        const Excerpt excerpt = all_of_phase() ? Excerpt() : options_.excerpts[phase_];
        const Part part = excerpt.part(phase().lines);
        if (part != part_) {
            flush();
            part_ = part;
        }
        if (part == Part::counted) number_ = excerpt.number(phase().lines);
        phase().lines += lines;
        if (part_ == Part::counted) stretch().lines += lines;
        return part_ != Part::skipped;
    }
    // The one that is counted.
    NodeStretch& stretch() {
        auto& stretches = phase().stretches;
        while (stretches.size() <= number_) stretches.emplace_back().drams.resize(drams_.size());
        return stretches[number_];
    }
    [[nodiscard]] bool all_of_phase() const {
        return options_.excerpts.empty() || options_.excerpts[phase_].period == 0;
    }

    void move_lines(const Op& op, AccessKind kind) {
        if (!pages_.mapped(op.page)) return;  // the zero page
        const auto lines = static_cast<unsigned>(std::popcount(op.lines));
        const std::uint32_t copies = pages_.writable(op.page) ? options_.ranks : 1;
        if (!enter(std::uint64_t{lines} * copies)) return;
        // A line that leaves L1 was translated when it was fetched.
        if (kind != AccessKind::write_back && !samples()) translate(op, lines);
        const std::uint64_t simulated = op.lines & options_.sets;
        if (simulated == 0) return;
        pages_.for_sampled(op.page, simulated,
                           [&](std::span<const RankPage> pages, std::uint64_t mask) {
                               for (const RankPage& page : pages) {
                                   owners_[page.frame] = op.object;
                                   caches_.push(mask, page.frame, core_of(page.rank, op), kind);
                               }
                           });
    }

    // `accesses` to a page, by the thread of the op in every rank.
    void translate(const Op& op, std::uint64_t accesses) {
        if (tlbs_.empty() || !options_.translating) return;
        const VirtualAddress address(program_.pages()[op.page].raw() * page_bytes);
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            const PageSize size = size_of(pages_.order_of(op.page, rank));
            const std::uint32_t core = core_of(rank, op);
            const auto walk = [&](unsigned first, unsigned last) {
                if (samples()) return;
                const auto entries = tables_[rank].entries(address, size);
                for (unsigned level = first; level >= last; --level) {
                    const std::uint64_t entry = entries[level - 1];
                    caches_.push(1ull << (entry / line_bytes % lines_per_page),
                                 static_cast<std::uint32_t>(entry / page_bytes), core,
                                 AccessKind::read);
                }
            };
            tlbs_[core].access(address.raw(), size, accesses, tlb_counters_, walk);
        }
    }

    void map(const Op& op) {
        if (pages_.writable(op.page)) return;
        if (pages_.mapped(op.page)) unmap(make_op(OpKind::unmap, op.page, 1));
        const bool simulated = enter(0);
        const auto lines = static_cast<unsigned>(std::popcount(options_.sets));
        pages_.map_write(
            op.page, [&](std::uint32_t rank, std::uint32_t first, std::uint32_t frames) {
                bool used = false;
                for (std::uint32_t i = 0; i < frames; ++i) used |= hand_out(first + i);
                phase().cleared += std::uint64_t{lines} * frames;
                if (frames > 1) return large_.push_back({first, frames, core_of(rank, op), used});
                if (!simulated || !reaches_machine(used)) return;
                if (part_ == Part::counted) stretch().cleared += lines;
                caches_.push(options_.sets, first, core_of(rank, op), AccessKind::stream_store);
                cleared_.push_back(first);
            });
        if (!large_.empty()) clear_large();
        map_in_tables(op);
    }

    // What the page cache has was read from the disk long since: nothing is cleared.
    void read_file(const Op& op) {
        if (op.lines == 0 || pages_.mapped(op.page)) return;
        pages_.map_read(op.page, static_cast<std::uint32_t>(op.lines - 1));
        const std::uint32_t frame = pages_.frame(op.page, 0);
        if (frame >= owners_.size() || owners_[frame] == never_owned) hand_out(frame);
        map_in_tables(op);
    }

    void map_in_tables(const Op& op) {
        if (tables_.empty()) return;
        const VirtualAddress address(program_.pages()[op.page].raw() * page_bytes);
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            tables_[rank].map(address, size_of(pages_.order_of(op.page, rank)), [&] {
                const Frame frame = pages_.take_frame(rank);
                hand_out(frame.raw());
                return frame;
            });
        }
    }

    // The large pages that ranks were given for one first touch, side by side.
    void clear_large() {
        const std::uint64_t number = large_pages_[phase_]++;
        const auto of_frame = static_cast<std::uint64_t>(std::popcount(options_.sets));
        for (const LargePage& page : large_) phase().cleared_large += of_frame * page.frames;
        const bool some = number < first_large || number % large_distance == 0;
        if (all_of_phase() || (some && !drams_.empty())) {
            flush();
            const Part part = std::exchange(part_, Part::counted);
            clearing_large_ = true;
            const std::uint32_t most = all_of_phase() ? ~0u : most_large_frames;
            for (std::uint32_t i = 0; i < std::min(large_.front().frames, most); ++i) {
                for (const LargePage& page : large_)
                    if (reaches_machine(page.used))
                        caches_.push(options_.sets, page.first + i, page.core,
                                     AccessKind::stream_store);
                phase().simulated_large += of_frame * large_.size();
                if (caches_.pending() >= batch_lines) flush();
            }
            flush();
            clearing_large_ = false;
            part_ = part;
        }
        large_.clear();
    }

    // Of a node's frames a job may have few: who owned all of them would be most of a short replay.
    // Says whether the job had the frame before.
    bool hand_out(std::uint32_t frame) {
        if (frame >= owners_.size())
            owners_.resize(std::max(std::size_t{frame} + 1, 2 * owners_.size()), never_owned);
        return std::exchange(owners_[frame], page_clearing) != never_owned;
    }

    // Whether clearing a frame changes anything but counts: DRAM's rows, or lines of the frame that
    // caches still have.
    [[nodiscard]] bool reaches_machine(bool used) const { return used || !drams_.empty(); }

    void unmap(const Op& op) {
        pages_.unmap(op.page, op.lines);
        if (tlbs_.empty()) return;
        const auto pages = program_.pages().subspan(op.page, op.lines);
        for (std::size_t first = 0, last = 0; first < pages.size(); first = last) {
            do ++last;
            while (last < pages.size() && pages[last].raw() == pages[last - 1].raw() + 1);
            for (Tlb& tlb : tlbs_) tlb.invalidate(pages[first], last - first);
        }
    }

    // What is pending goes through caches and DRAM, and is counted if it is to be.
    void flush() {
        if (caches_.pending() != 0) {
            for (auto& of_core : requests_) of_core.clear();
            caches_.flush(traffic_, [this](std::uint32_t first_core, const auto& its) {
                request(first_core, its);
            });
            if (part_ == Part::counted) to_dram();  // DRAM needs no warming up
        }
        Stock now = stock();
        if (part_ == Part::counted) count(now);
        before_ = std::move(now);
        tlb_counters_ = {};
        traffic_.clear();
        cleared_.clear();
    }

    void request(std::uint32_t first_core, std::span<const MemoryAccess> traffic) {
        if (drams_.empty()) return;
        for (const MemoryAccess& access : traffic) {
            requests_[first_core + access.core()].push_back(access.line() * line_bytes |
                                                            (access.write() ? Dram::write_bit : 0));
        }
    }

    void to_dram() {
        if (drams_.empty()) return;
        spans_.assign(requests_.begin(), requests_.end());
        for (Dram& dram : drams_) dram.run(spans_);
    }

    struct Stock {
        std::array<std::uint64_t, cache_counters> caches{};
        std::vector<DramSums> drams;
    };

    [[nodiscard]] Stock stock() const {
        Stock now;
        now.caches = caches_.totals();
        for (const Dram& dram : drams_) now.drams.push_back(DramSums::of(dram));
        return now;
    }

    // Adds what happened since the last stock to what is counted.
    void count(const Stock& now) {
        if (clearing_large_) {
            for (std::size_t i = 0; i < drams_.size(); ++i)
                phase().large_drams[i].add(before_.drams[i], now.drams[i]);
            return;
        }
        NodeStretch& sums = stretch();
        for (std::size_t i = 0; i < cache_counters; ++i)
            sums.caches[i] += now.caches[i] - before_.caches[i];
        sums.tlb += tlb_counters_;
        for (std::size_t i = 0; i < drams_.size(); ++i)
            sums.drams[i].add(before_.drams[i], now.drams[i]);
        for (const MemoryAccess& access : traffic_) {
            const std::uint16_t object = owners_[access.line() / lines_per_page];
            ++(access.write() ? phase().object_writes : phase().object_reads)[object];
        }
        for (const std::uint32_t frame : cleared_)  // its owner may be another by now
            phase().object_writes[owners_[frame]] -=
                static_cast<unsigned>(std::popcount(options_.sets));
    }

    const Program& program_;
    const NodeReplayOptions options_;
    RankPages pages_;
    CacheGroups caches_;
    std::vector<Tlb> tlbs_;           // [core]; empty without
    std::vector<PageTables> tables_;  // [rank]
    std::vector<Dram> drams_;
    // [frame] the object that used it last, up to the highest frame that was handed out
    HugeVector<std::uint16_t> owners_;
    NodeCounters counters_;

    struct LargePage {
        std::uint32_t first, frames, core;
        bool used;  // some of its frames, before
    };

    unsigned phase_ = 0;
    std::uint64_t number_ = 0;  // of the stretch in its phase
    bool clearing_large_ = false;
    std::vector<LargePage> large_;            // of the page that is mapped
    std::vector<std::uint64_t> large_pages_;  // [phase] that one rank was given
    Part part_ = Part::counted;
    MemoryTraffic traffic_;
    std::vector<std::uint32_t> cleared_;                // small frames, since the last flush
    std::vector<std::vector<std::uint64_t>> requests_;  // [core]
    std::vector<std::span<const std::uint64_t>> spans_;
    Stock before_;
    TlbCounters tlb_counters_;
};

}  // namespace

NodeCounters replay_node(const Program& program, const Placement& placement, const NodeModel& model,
                         const NodeReplayOptions& options, const std::atomic<bool>& cancel) {
    const std::uint64_t cores = std::uint64_t{options.ranks} * program.threads();
    if (options.ranks < 1 || cores > model.cores)
        throw std::invalid_argument(
            "ranks: at least 1, and with their threads at most the node's " +
            std::to_string(model.cores) + " cores");
    if (!options.excerpts.empty()) check(program, options.excerpts);
    return NodeReplay(program, placement, model, options).run(cancel);
}

}  // namespace pagelens
