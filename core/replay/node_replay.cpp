#include "core/replay/node_replay.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/replay/cache_groups.hpp"
#include "core/replay/host_memory.hpp"
#include "core/replay/memory_tiers.hpp"
#include "core/replay/node_twin.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/replay.hpp"

namespace pagelens {
namespace {

// Lines that go through the caches, and what they ask of memory through DRAM, at a time. DRAM
// begins each time when the lines before are all there, so many; and so few that they stay in the
// host's caches.
constexpr std::uint64_t batch_lines = 1u << 15;
// Lines that only warm the caches up do not go to DRAM. So many at a time meet each set often, also
// where a node has a hundred cores.
constexpr std::uint64_t warm_up_lines = 1u << 21;
// In a sampled phase, DRAM clears the first `first_large` large pages and then one in
// `large_distance`. It clears at most `most_large_frames` frames of each, and at most
// `most_frames_of_ranks` of those that all ranks were given for one first touch.
constexpr std::uint64_t first_large = 4, large_distance = 32;
constexpr std::uint32_t most_large_frames = 512, most_frames_of_ranks = 1u << 14;

// Page tables that a rank needs at most: of 4 KiB pages, and the levels above them.
std::uint32_t tables_of(const Program& program) {
    std::size_t tables = program.spaces();
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
    NodeReplay(const Program& program, const Placement& placement,
               std::span<const NodeModel* const> models, const NodeReplayOptions& options)
        : program_(program),
          options_(options),
          numa_(options.numa ? *options.numa : NumaPlacing{}),
          pages_(program, placement, options.ranks, Sampling(), RankPages::Listed::covered,
                 SlotPopulation(0, 0), models[0]->tlb ? tables_of(program) : 0, placing()),
          runs_(models[0]->caches.cores(), cores_of(program, options)),
          host_(models[0]->host_page, placement.frames()),
          owners_(placement.frames() + host_.table_frames(),
                  std::size_t{options.ranks} * program.pages().size()),
          counters_{std::vector<NodePhase>(program.phases()), 0, 0, 0} {
        const std::uint32_t cores = cores_of(program, options);
        if (models[0]->tlb) {
            unused_tlb_ = *models[0]->tlb;
            tlbs_.assign(ranks_are_alike_ ? program.threads() : cores, *models[0]->tlb);
            tables_.resize(std::size_t{options.ranks} * program.spaces());
        }
        twins_.reserve(models.size());
        for (const NodeModel* model : models)
            twins_.emplace_back(*model, program, cores, placing());
        times_clearing_ = !models[0]->drams.empty();
        large_pages_.resize(program.phases());
    }

    std::vector<NodeCounters> run(const UnderWay& under_way) {
        enter(0);
        const auto cursor = program_.open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
            under_way.at(cursor->done());
            for (const Op& op : ops) {
                step(op);
                if (refills() || runs_.lines() < (counts() ? batch_lines : warm_up_lines)) continue;
                flush();
                under_way.stop_if_cancelled();
            }
        }
        flush();
        counters_.huge_pages = pages_.huge_pages();
        counters_.small_fallbacks = pages_.small_fallbacks();
        std::vector<NodeCounters> found;
        for (NodeTwin& twin : twins_) {
            for (NodeMemory& memory : twin.memories())
                found.push_back(std::move(memory).counters(counters_));
        }
        return found;
    }

  private:
    using Part = Excerpt::Part;

    void step(const Op& op) {
        const bool recalled = op.kind() == OpKind::recall || op.kind() == OpKind::recall_dirty;
        if (recalled != recalling_) {
            flush();
            recalling_ = recalled;
        }
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
            case OpKind::recall:
                return to_caches(op, AccessKind::read);
            case OpKind::recall_dirty:
                return to_caches(op, AccessKind::write_back);
            case OpKind::map_read:
                return read_file(op);
            case OpKind::hint_fault:
                return balance(op);
            case OpKind::swap_threads:
                if (ranks_are_alike_) tell_ranks_apart();
                return std::swap(numa_.cpus.at(op.page), numa_.cpus.at(op.lines));
            case OpKind::meet:  // a job has done so
                return;
        }
    }

    NodePhase& phase() { return counters_.phases[phase_]; }
    // Lines may be recalled within a stretch, too, where its phase goes on after another one.
    [[nodiscard]] bool counts() const { return part_ == Part::counted && !recalling_; }
    // Few recalled lines go through the caches. Many wait until all are there, where a stretch
    // begins.
    [[nodiscard]] bool refills() const {
        return recalling_ && part_ == Part::skipped &&
               options_.excerpts[phase_].recalled > options_.refilled_above;
    }
    // Whether TLBs and walks know of the touches alone.
    [[nodiscard]] bool samples() const {
        return options_.sets != all_line_sets && !options_.all_lines;
    }
    [[nodiscard]] std::uint32_t core_of(std::uint32_t rank, std::uint32_t thread) const {
        const std::uint32_t of_job = rank * program_.threads() + thread;
        return options_.numa ? numa_.cpus[of_job] : of_job;
    }
    [[nodiscard]] std::uint32_t core_of(std::uint32_t rank, const Op& op) const {
        return core_of(rank, std::uint32_t{op.thread});
    }
    // Whether each thread of each rank has a core of its own, where it begins.
    static bool have_own_cores(const NodeReplayOptions& options) {
        if (options.numa == nullptr) return true;
        const auto& cpus = options.numa->cpus;
        return std::unordered_set(cpus.begin(), cpus.end()).size() == cpus.size();
    }
    // Cores up to the last one that a thread runs on.
    static std::uint32_t cores_of(const Program& program, const NodeReplayOptions& options) {
        if (options.numa == nullptr) return options.ranks * program.threads();
        return *std::ranges::max_element(options.numa->cpus) + 1;
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
        while (stretches.size() <= number_) stretches.emplace_back();
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
        to_caches(op, kind);
    }

    void to_caches(const Op& op, AccessKind kind) {
        if (!pages_.mapped(op.page)) return;  // the zero page
        // A line that leaves L1 was translated when it was fetched.
        if (op.kind() != OpKind::write_back && !samples())
            translate(op, static_cast<unsigned>(std::popcount(op.lines)));
        if (!options_.caching) return;
        const std::uint64_t simulated = op.lines & options_.sets;
        if (simulated == 0) return;
        pages_.for_sampled(op.page, simulated,
                           [&](std::span<const RankPage> pages, std::uint64_t mask) {
                               for (const RankPage& page : pages) {
                                   const std::uint32_t frame = host_.frame(page.frame);
                                   const std::uint32_t core = core_of(page.rank, op);
                                   owners_.use(frame, op.object, runs_.group_of(core));
                                   runs_.push(mask, frame, core, kind);
                               }
                           });
    }

    [[nodiscard]] VirtualAddress address_of(std::uint32_t page) const {
        return VirtualAddress(program_.pages()[page].raw() * page_bytes);
    }
    // Numbers of pages say which address space they are in only where there are several.
    [[nodiscard]] std::uint64_t space_of(std::uint32_t page) const {
        return program_.spaces() == 1 ? 0 : program_.pages()[page].raw() >> space_shift;
    }
    [[nodiscard]] VirtualAddress address_in_space(std::uint32_t page) const {
        const std::uint64_t number = program_.pages()[page].raw();
        return VirtualAddress((number - (space_of(page) << space_shift)) * page_bytes);
    }
    PageTables& tables_for(std::uint32_t rank, std::uint32_t page) {
        return tables_[std::size_t{rank} * program_.spaces() + space_of(page)];
    }

    // `accesses` to a page, by the thread of the op in every rank.
    void translate(const Op& op, std::uint64_t accesses) {
        if (tlbs_.empty() || !options_.translating) return;
        const std::uint64_t address = address_of(op.page).raw();
        if (ranks_are_alike_) {
            const PageSize size = size_of(pages_.order_of(op.page, 0));
            const auto walks = [&](unsigned first, unsigned last) {
                for (std::uint32_t rank = 0; rank < options_.ranks; ++rank)
                    walk(op, rank, size, first, last);
            };
            tlbs_[op.thread].access(address, host_.held(size), accesses, of_each_rank_, walks);
            return;
        }
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            const PageSize size = size_of(pages_.order_of(op.page, rank));
            const auto walks = [&](unsigned first, unsigned last) {
                walk(op, rank, size, first, last);
            };
            tlbs_[core_of(rank, op)].access(address, host_.held(size), accesses, tlb_counters_,
                                            walks);
        }
    }
    void walk(const Op& op, std::uint32_t rank, PageSize size, unsigned first, unsigned last) {
        count_walks_of_host(first, size, host_.held(size));
        if (samples() || !options_.caching) return;
        const std::uint32_t core = core_of(rank, op);
        const auto entries = tables_for(rank, op.page).entries(address_in_space(op.page), size);
        for (unsigned level = first; level >= std::max(last, leaf_level(size)); --level) {
            const std::uint64_t entry = entries[level - 1];
            const auto table = static_cast<std::uint32_t>(entry / page_bytes);
            // The cached entry above the first table says where the host has it.
            if (level < first) read_of_host(table, core);
            read_entry(host_.frame(table), entry, core);
        }
        read_of_host(pages_.frame(op.page, rank), core);
    }
    // Some ranks get another page size than others, or threads begin to move from core to core:
    // from now on, each core has TLBs of its own.
    void tell_ranks_apart() {
        ranks_are_alike_ = false;
        if (tlbs_.empty()) return;
        const std::vector<Tlb> of_thread = std::exchange(tlbs_, {});
        std::vector<const Tlb*> of_core(cores_of(program_, options_), &unused_tlb_.value());
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            for (std::uint32_t thread = 0; thread < program_.threads(); ++thread)
                of_core[core_of(rank, thread)] = &of_thread[thread];
        }
        for (const Tlb* tlb : of_core) tlbs_.push_back(*tlb);
    }
    // Each entry of the host that a walk reads counts as a walk of its own, with one step. The TLB
    // has counted one already for what it holds of a page that is larger than the host's.
    void count_walks_of_host(unsigned first, PageSize size, PageSize held) {
        if (!host_) return;
        const unsigned tables = first > leaf_level(size) ? first - leaf_level(size) : 0;
        const unsigned of_page = size == held ? 1 : 0;
        tlb_counters_.walks[static_cast<unsigned>(held)][leaf_level(held) - 1] += tables + of_page;
    }
    // A walk on a core reads an entry of a table in this frame.
    void read_entry(std::uint32_t frame, std::uint64_t entry, std::uint32_t core) {
        const std::uint64_t line = 1ull << (entry / line_bytes % lines_per_page);
        if ((line & options_.sets) != 0) runs_.push(line, frame, core, AccessKind::read);
    }
    // It reads the host's entry for a frame of the guest.
    void read_of_host(std::uint32_t of_guest, std::uint32_t core) {
        if (!host_) return;
        const std::uint64_t entry = host_.entry(of_guest);
        const auto frame = static_cast<std::uint32_t>(entry / page_bytes);
        owners_.set(frame, page_clearing);
        read_entry(frame, entry, core);
    }

    void map(const Op& op) {
        if (pages_.writable(op.page)) return;
        if (pages_.mapped(op.page)) unmap(make_op(OpKind::unmap, op.page, 1));
        const bool simulated = enter(0);
        const auto lines = static_cast<unsigned>(std::popcount(options_.sets));
        Op touch = op;
        touch.thread = numa_.first_thread(op.page, op.thread) & 0xfff;
        pages_.map_write(
            op.page,
            [&](std::uint32_t rank, std::uint32_t first, std::uint32_t frames) {
                bool used = false;
                for (std::uint32_t i = 0; i < frames; ++i) used |= hand_out(first + i);
                phase().cleared += std::uint64_t{lines} * frames;
                count_cleared(first, core_of(rank, touch), std::uint64_t{lines} * frames);
                if (frames > 1)
                    return large_.push_back({first, frames, core_of(rank, touch), used});
                const std::uint32_t frame = host_.frame(first);
                if (!simulated) return drop(frame);
                if (!reaches_machine(used)) return;
                if (part_ == Part::counted) stretch().cleared += lines;
                runs_.push(options_.sets, frame, core_of(rank, touch), AccessKind::stream_store);
                cleared_.push_back({frame, core_of(rank, touch)});
            },
            op.thread);
        if (!large_.empty()) clear_large();
        if (ranks_are_alike_ && !pages_.is_of_one_order(op.page)) tell_ranks_apart();
        map_in_tables(op);
    }

    [[nodiscard]] const NumaPlacing* placing() const { return options_.numa ? &numa_ : nullptr; }
    // NUMA balancing met an access, or demotes a page. What copying the page moves is not counted.
    void balance(const Op& op) {
        if (!pages_.writable(op.page)) return;
        const auto follow = [&](auto from, auto to) {
            hand_out(to);
            owners_.set(host_.frame(to), owners_[host_.frame(from)]);
        };
        const bool is_slow = op.lines == HintFault::is_cold || op.lines == HintFault::is_hot;
        if (op.lines < HintFault::demoted)
            phase().hint_faults += is_slow ? pages_.on_slow(op.page) : options_.ranks;
        std::uint64_t moved = 0;
        if (op.lines == HintFault::moves) {
            moved = pages_.move(op.page, op.thread, follow);
            phase().pages_moved += moved;
        } else if (op.lines == HintFault::is_hot) {
            moved = pages_.promote(op.page, op.thread, follow, [](auto, auto) {});
            phase().pages_moved += moved;
        } else if (op.lines >= HintFault::demoted) {
            moved = pages_.demote(op.page, static_cast<unsigned>(op.lines - HintFault::demoted),
                                  follow);
            phase().pages_demoted += moved;
        }
        if (moved == 0) return;
        for (Tlb& tlb : tlbs_) tlb.invalidate(program_.pages()[op.page], 1);
    }

    // What the page cache has was read from the disk long since: nothing is cleared.
    void read_file(const Op& op) {
        if (op.lines == 0 || pages_.mapped(op.page)) return;
        pages_.map_read(op.page, static_cast<std::uint32_t>(op.lines - 1), op.thread);
        const std::uint32_t frame = pages_.frame(op.page, 0);
        if (owners_[host_.frame(frame)] == FrameObjects::none) hand_out(frame);
        map_in_tables(op);
    }

    void map_in_tables(const Op& op) {
        if (tables_.empty()) return;
        const VirtualAddress address = address_in_space(op.page);
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            tables_for(rank, op.page).map(address, size_of(pages_.order_of(op.page, rank)), [&] {
                const Frame frame = pages_.take_frame(rank);
                hand_out(frame.raw());
                return frame;
            });
        }
    }

    // The pages of many frames that ranks were given for one first touch, side by side. Ranks that
    // got no large page may have a kernel's page of 64 KiB, which ends before the others. Where
    // their clearing is not counted, it drops what caches still have of frames from the job's past.
    void clear_large() {
        const std::uint64_t number = large_pages_[phase_]++;
        const auto of_frame = static_cast<std::uint64_t>(std::popcount(options_.sets));
        for (const LargePage& page : large_) phase().cleared_large += of_frame * page.frames;
        const bool some = number < first_large || number % large_distance == 0;
        std::uint32_t counted = 0;
        if (all_of_phase())
            counted = ~0u;
        else if (some && times_clearing_)
            counted = std::min(most_large_frames, most_frames_of_ranks / options_.ranks);
        if (counted > 0 || (options_.caching && std::ranges::any_of(large_, &LargePage::used))) {
            flush();
            const Part part = std::exchange(part_, Part::counted);
            clearing_large_ = true;
            clear_frames(0, counted);
            clearing_large_ = false;
            part_ = Part::warm_up;
            clear_frames(counted, ~0u);
            part_ = part;
        }
        large_.clear();
    }

    void clear_frames(std::uint32_t from, std::uint32_t end) {
        const std::uint32_t longest = std::ranges::max(large_, {}, &LargePage::frames).frames;
        const auto of_frame = static_cast<std::uint64_t>(std::popcount(options_.sets));
        for (std::uint32_t i = from; i < std::min(longest, end); ++i) {
            for (const LargePage& page : large_) {
                if (i >= page.frames) continue;
                const std::uint32_t frame = host_.frame(page.first + i);
                if (!clearing_large_) {
                    drop(frame);
                    continue;
                }
                phase().simulated_large += of_frame;
                if (reaches_machine(page.used))
                    runs_.push(options_.sets, frame, page.core, AccessKind::stream_store);
            }
            if (runs_.lines() >= batch_lines) flush();
        }
        flush();
    }

    // A frame is cleared, which is not counted: only what caches have of it matters. Memory may be
    // given back and cleared many times between two stretches, and the first time drops all.
    void drop(std::uint32_t frame) {
        const std::uint16_t group = owners_.drop(frame);
        if (group != FrameObjects::none)
            runs_.push(options_.sets, frame, runs_.first_core(group), AccessKind::stream_store);
    }

    // Says whether the job had the frame before.
    bool hand_out(std::uint32_t frame) {
        return owners_.set(host_.frame(frame), page_clearing) != FrameObjects::none;
    }

    // Whether clearing a frame changes anything but counts: DRAM's rows, or lines of the frame that
    // caches still have.
    [[nodiscard]] bool reaches_machine(bool used) const {
        return options_.caching && (used || times_clearing_);
    }

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
        for (NodeTwin& twin : twins_) {
            if (refills()) {
                twin.refill(runs_);
                continue;
            }
            twin.run(runs_, counts());
            if (!counts()) continue;
            for (NodeMemory& memory : twin.memories()) count(memory);
        }
        if (counts() && !clearing_large_) {
            stretch().tlb += tlb_counters_;
            for (std::uint32_t rank = 0; rank < options_.ranks; ++rank)
                stretch().tlb += of_each_rank_;
        }
        tlb_counters_ = of_each_rank_ = {};
        runs_.clear();
        cleared_.clear();
    }

    void count(NodeMemory& memory) const {
        if (clearing_large_) return memory.count_large(phase_);
        memory.count(phase_, number_, owners_);
        for (const auto& [frame, core] : cleared_)  // its owner may be another by now
            memory.take_back(phase_, owners_[frame], frame, core,
                             static_cast<unsigned>(std::popcount(options_.sets)));
    }
    // Lines that the kernel clears for a thread on a core, whether they are simulated or not.
    void count_cleared(std::uint32_t frame, std::uint32_t core, std::uint64_t lines) {
        if (options_.numa == nullptr) return;
        const NumaPlacing& numa = numa_;
        auto& cleared = phase().numa_cleared;
        cleared.resize(std::size_t{numa.nodes()} * numa.nodes());
        cleared[numa.node_of_cpu[core] * numa.nodes() + numa.node_of_frame(frame)] += lines;
    }

    const Program& program_;
    const NodeReplayOptions options_;
    NumaPlacing numa_;  // that of the options, with the cores that threads have moved to since
    RankPages pages_;
    PendingRuns runs_;
    HostMemory host_;
    std::vector<NodeTwin> twins_;
    bool times_clearing_;  // DRAM is told of cleared pages
    // Copies of a program have the same virtual addresses. As long as they have the same sizes of
    // pages, too, and each thread stays on a core of its own, one copy's TLBs stand for those of
    // all.
    bool ranks_are_alike_ = have_own_cores(options_);
    std::optional<Tlb> unused_tlb_;   // as that of a core is before its first thread
    std::vector<Tlb> tlbs_;           // [core], or [thread] of each rank; empty without
    std::vector<PageTables> tables_;  // [rank * spaces + space]
    FrameObjects owners_;
    NodeCounters counters_;  // what all machines have in common

    struct LargePage {
        std::uint32_t first, frames, core;
        bool used;  // some of its frames, before
    };

    unsigned phase_ = 0;
    std::uint64_t number_ = 0;  // of the stretch in its phase
    bool recalling_ = false;    // what waits is recalled
    bool clearing_large_ = false;
    std::vector<LargePage> large_;            // of the page that is mapped
    std::vector<std::uint64_t> large_pages_;  // [phase] that one rank was given
    Part part_ = Part::counted;
    struct Cleared {
        std::uint32_t frame, core;
    };
    std::vector<Cleared> cleared_;  // small frames, since the last flush
    // Where one rank's TLBs stand for those of all, of_each_rank_ has what each of them counts.
    TlbCounters tlb_counters_, of_each_rank_;
};

}  // namespace

NodeCounters replay_node(const Program& program, const Placement& placement, const NodeModel& model,
                         const NodeReplayOptions& options, const UnderWay& under_way) {
    const NodeModel* const models[] = {&model};
    return std::move(replay_twins(program, placement, models, options, under_way).front());
}

std::vector<NodeCounters> replay_twins(const Program& program, const Placement& placement,
                                       std::span<const NodeModel* const> models,
                                       const NodeReplayOptions& options,
                                       const UnderWay& under_way) {
    if (models.empty()) throw std::invalid_argument("models: at least one");
    const NodeModel& first = *models.front();
    for (const NodeModel* model : models) {
        if (model->cores != first.cores || model->caches.cores() != first.caches.cores() ||
            model->tlb.has_value() != first.tlb.has_value() ||
            model->host_page != first.host_page || model->drams.empty() != first.drams.empty())
            throw std::invalid_argument(
                "models: may differ in what their caches and DRAMs are, not in cores, in how many "
                "of them share caches, in TLBs, or in having DRAMs");
    }
    const std::uint64_t cores = std::uint64_t{options.ranks} * program.threads();
    if (options.ranks < 1 || cores > first.cores)
        throw std::invalid_argument(
            "ranks: at least 1, and with their threads at most the node's " +
            std::to_string(first.cores) + " cores");
    if (options.numa != nullptr) {
        const NumaPlacing& numa = *options.numa;
        const auto on_node = [&](std::uint32_t cpu) {
            return cpu < first.cores && cpu < numa.node_of_cpu.size();
        };
        if (numa.cpus.size() != cores || numa.policies.empty() || numa.nodes() == 0 ||
            !std::ranges::all_of(numa.cpus, on_node) ||
            !(numa.of_page.empty() || numa.of_page.size() == program.pages().size()) ||
            !(numa.touched_by.empty() || numa.touched_by.size() == program.pages().size()))
            throw std::invalid_argument(
                "numa: needs a CPU of the node for each thread, a policy for each page, and nodes");
    }
    if (!options.excerpts.empty()) check(program, options.excerpts);
    return NodeReplay(program, placement, models, options).run(under_way);
}

}  // namespace pagelens
