#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <numeric>
#include <set>

#include "core/accesses/sweeps.hpp"
#include "core/replay/compulsory.hpp"
#include "core/replay/host_memory.hpp"
#include "core/replay/node_replay.hpp"
#include "core/replay/object_lines.hpp"
#include "tests/cpp/reference_replay.hpp"
#include "tests/cpp/small_dram.hpp"

using namespace pagelens;
using reference::ListedProgram;

namespace {

const std::atomic<bool> run_on{false};
constexpr std::uint32_t node_frames = 8192;  // 32 MiB

NodeState bare() { return NodeState(bare_layout(node_frames), 1); }

// Cores with an L2 each, an L3 and a snoop filter that are too small for 4 of them, in one slice.
HierarchyModel small_caches(std::uint32_t cores) {
    HierarchyModel caches;
    caches.cores = cores;
    caches.l2.geometry = {64, 4};
    caches.l3 = HierarchyModel::Shared{{128, 8}, Inclusion::victim};
    caches.snoop_filter = CacheGeometry{64, 6};
    return caches;
}

NodeModel small_node(std::uint32_t cores) {
    return {cores, CacheHierarchy(small_caches(cores)), {}, {}};
}

Dram small_dram(RowPolicy policy) { return reference::small_dram(7, 3, 9, policy); }

Tlb small_tlb() {
    TlbForm form;
    TlbForm::Array first, second;
    first.shape = {16, 4};
    first.holds = {true, true, false};
    second.level = 2, second.shape = {64, 4}, second.holds = {true, false, false};
    form.arrays = {first, second};
    form.structure_caches[1] = {4, 4};
    return Tlb(form);
}

// Pages come, are read and written by several objects and threads, and go, in three phases.
ListedProgram some_program(std::uint64_t seed, unsigned threads, int length) {
    constexpr std::uint32_t pages = 120;
    Random random(seed, 0, 0, Stream::history);
    std::vector<Op> ops;
    for (int i = 0; i < length; ++i) {
        const std::uint32_t page = random.below(pages);
        const auto object = static_cast<std::uint16_t>(1 + page * 4 / pages);
        const unsigned thread = random.below(threads);
        const std::uint64_t lines = random.bits64() & random.bits64() & random.bits64();
        const unsigned kind = random.below(12);
        if (kind == 0) {
            ops.push_back(make_op(OpKind::unmap, page, std::min(2u, pages - page)));
        } else if (kind == 1 && random.below(2) == 0) {
            const std::uint64_t of_cache = random.below(4) == 0 ? 0 : 8 * object + random.below(8);
            ops.push_back(make_op(OpKind::map_read, page, of_cache, object, thread));
        } else if (kind == 1) {
            ops.push_back(make_op(OpKind::touch, page, 0, object, thread));
        } else if (kind == 2 && random.below(30) == 0) {
            ops.push_back(make_op(OpKind::phase, random.below(3), 0));
        } else if (kind < 5) {
            ops.push_back(make_op(OpKind::stream_store, page, lines, object, thread));
        } else if (kind < 7) {
            ops.push_back(make_op(OpKind::write_back, page, lines, object, thread));
        } else {
            ops.push_back(make_op(OpKind::map_write, page, 0, object, thread));
            ops.push_back(make_op(OpKind::fetch, page, lines, object, thread));
        }
    }
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < pages; ++p) addresses.emplace_back(0x7f1234500 + 3 * p);
    return {ops, addresses, 5, 3, threads};
}

// The same by the components alone: line by line, frames from the allocator as they are needed.
class PlainNode {
  public:
    // TLBs have no excerpts here.
    PlainNode(const ListedProgram& program, const NodeModel& model, std::uint32_t ranks,
              std::vector<Excerpt> excerpts = {})
        : program_(program),
          ranks_(ranks),
          excerpts_(std::move(excerpts)),
          frames_(place_by_kernel(bare(), small_order)->open({ranks, 0, 0}), ranks),
          caches_(model.caches),
          host_(model.host_page, place_by_kernel(bare(), small_order)->frames()) {
        phases_.resize(program.phases());
        excerpts_.resize(program.phases());
        for (NodePhase& phase : phases_) {
            phase.large_drams.resize(model.drams.size());
            phase.object_reads.resize(program.objects());
            phase.object_writes.resize(program.objects());
        }
        drams_ = model.drams;
        if (model.tlb) tlbs_.assign(ranks * program.threads(), *model.tlb);
        tables_.resize(ranks);
        enter(0);
        for (const Op& op : program.ops()) step(op);
        end_part();
    }
    [[nodiscard]] const std::vector<NodePhase>& phases() const { return phases_; }

  private:
    NodeStretch& stretch() {
        auto& stretches = phases_[now_].stretches;
        while (stretches.size() <= number_) stretches.emplace_back().drams.resize(drams_.size());
        return stretches[number_];
    }
    // All ranks move so many lines.
    void enter(std::uint64_t lines) {
        const Excerpt::Part part = excerpts_[now_].part(phases_[now_].lines);
        if (part != part_) end_part();
        part_ = part;
        if (is_counted()) number_ = excerpts_[now_].number(phases_[now_].lines);
        phases_[now_].lines += lines;
        if (is_counted()) stretch().lines += lines;
    }
    [[nodiscard]] bool is_counted() const { return part_ == Excerpt::Part::counted; }
    void map_in_tables(VirtualAddress address) {
        if (tlbs_.empty()) return;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            tables_[rank].map(address, PageSize::small, [&] {
                return *frames_.source().alloc(
                    {.cpu = rank, .type = MigrateType::unmovable, .rank = rank});
            });
        }
    }
    void forget(std::uint32_t page) {
        for (Tlb& tlb : tlbs_) tlb.invalidate(program_.pages()[page], 1);
    }
    void step(const Op& op) {
        NodePhase& phase = phases_[now_];
        const auto core = [&](std::uint32_t rank) { return rank * program_.threads() + op.thread; };
        const VirtualAddress address(program_.pages()[op.page].raw() * page_bytes);
        const auto before = frames_.find(op.page, 0);
        switch (op.kind()) {
            case OpKind::phase:
                end_part();
                now_ = op.page;
                enter(0);
                break;
            case OpKind::map_write:
                enter(0);
                frames_.map_write(op.page, [&](std::uint32_t rank, std::uint32_t of_guest) {
                    const std::uint32_t frame = host_.frame(of_guest);
                    phase.cleared += 64;
                    // Into frames that are in no cache, where DRAM is not looked at: only counted.
                    const bool fresh = !owners_.contains(frame);
                    owners_[frame] = 0;
                    if (fresh && drams_.empty()) return;
                    if (is_counted()) stretch().cleared += 64;
                    cleared_.push_back(frame);
                    for (unsigned line = 0; line < 64; ++line)
                        use(frame, line, core(rank), AccessKind::stream_store);
                });
                if (before && frames_.find(op.page, 0) != before) forget(op.page);
                map_in_tables(address);
                break;
            case OpKind::unmap:
                for (std::uint32_t page = op.page; page < op.page + op.lines; ++page) {
                    frames_.unmap(page);
                    forget(page);
                }
                break;
            case OpKind::touch:
            case OpKind::fetch:
            case OpKind::write_back:
            case OpKind::stream_store:
                if (!before) break;
                if (op.kind() != OpKind::touch)
                    enter(std::popcount(op.lines) *
                          std::uint64_t{frames_.shared(op.page) ? 1 : ranks_});
                if (part_ == Excerpt::Part::skipped) break;
                for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
                    if (op.kind() != OpKind::write_back && !tlbs_.empty())
                        translate(core(rank), rank, address,
                                  op.kind() == OpKind::touch ? 1u : std::popcount(op.lines),
                                  *frames_.find(op.page, rank));
                }
                if (op.kind() == OpKind::touch) break;
                for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
                    const std::uint32_t frame = host_.frame(*frames_.find(op.page, rank));
                    owners_[frame] = op.object;
                    for (unsigned line = 0; line < 64; ++line) {
                        if ((op.lines >> line & 1) == 0) continue;
                        use(frame, line, core(rank),
                            op.kind() == OpKind::fetch        ? AccessKind::read
                            : op.kind() == OpKind::write_back ? AccessKind::write_back
                                                              : AccessKind::stream_store);
                    }
                }
                break;
            case OpKind::map_read:
                if (op.lines == 0 || before) break;
                frames_.map_read(op.page, op.lines);
                owners_.try_emplace(host_.frame(*frames_.find(op.page, 0)), 0);
                map_in_tables(address);
                break;
            case OpKind::skip:
            case OpKind::recall:
            case OpKind::recall_dirty:
            case OpKind::meet:
            case OpKind::hint_fault:
            case OpKind::swap_threads:
                break;
        }
    }
    void translate(std::uint32_t core, std::uint32_t rank, VirtualAddress address, unsigned times,
                   std::uint32_t frame) {
        for (unsigned i = 0; i < times; ++i) {
            const std::uint64_t addresses[] = {address.raw()};
            const PageSize sizes[] = {PageSize::small};
            tlbs_[core].translate(addresses, sizes, tables_[rank], stretch().tlb, reads_);
            for (std::size_t step = 0; step < reads_.entries.size(); ++step) {
                const std::uint64_t entry = reads_.entries[step];
                const auto table = static_cast<std::uint32_t>(entry / page_bytes);
                if (step > 0) use_of_host(table, core);
                use(host_.frame(table), entry / 64 % 64, core, AccessKind::read);
            }
            if (!reads_.entries.empty()) use_of_host(frame, core);
        }
    }
    void use_of_host(std::uint32_t of_guest, std::uint32_t core) {
        if (!host_) return;
        ++stretch().tlb.walks[0][0];
        const std::uint64_t line = host_.entry(of_guest) / 64;
        use(static_cast<std::uint32_t>(line / 64), line % 64, core, AccessKind::read);
    }
    void use(std::uint32_t frame, std::uint64_t line, std::uint32_t core, AccessKind kind) {
        lines_.push_back({std::uint64_t{frame} * 64 + line, core, kind});
    }
    void end_part() {
        NodePhase& phase = phases_[now_];
        MemoryTraffic traffic;
        for (const LineAccess& line : lines_) caches_.access(std::span(&line, 1), traffic);
        lines_.clear();
        if (!is_counted()) {
            caches_.reset_counts();
            return cleared_.clear();
        }
        for (std::size_t i = 0; i < cache_counters; ++i)
            stretch().caches[i] += caches_.total(static_cast<CacheCounter>(i));
        caches_.reset_counts();
        std::vector<std::vector<std::uint64_t>> requests(caches_.cores());
        for (const MemoryAccess& access : traffic) {
            const std::uint64_t line = access.line();
            requests[access.core()].push_back(line * 64 | (access.write() ? Dram::write_bit : 0));
            ++(access.write() ? phase.object_writes : phase.object_reads)[owners_[line / 64]];
        }
        for (const std::uint32_t frame : cleared_) phase.object_writes[owners_[frame]] -= 64;
        cleared_.clear();
        for (std::size_t i = 0; i < drams_.size() && !traffic.empty(); ++i) {
            const auto before = drams_[i].counts();
            const DramTotals totals = drams_[i].totals();
            const std::vector<std::span<const std::uint64_t>> spans(requests.begin(),
                                                                    requests.end());
            drams_[i].run(spans);
            DramSums& sums = stretch().drams[i];
            const auto after = drams_[i].counts();
            for (std::size_t bank = 0; bank < after.size(); ++bank) {
                sums.reads += after[bank].reads - before[bank].reads;
                sums.writes += after[bank].writes - before[bank].writes;
                sums.row_hits += after[bank].hits - before[bank].hits;
                sums.row_misses += after[bank].misses - before[bank].misses;
                sums.row_conflicts += after[bank].conflicts - before[bank].conflicts;
                sums.refreshes += after[bank].refreshes - before[bank].refreshes;
            }
            sums.time += drams_[i].totals().time - totals.time;
            sums.read_latency += drams_[i].totals().read_latency - totals.read_latency;
        }
    }

    const ListedProgram& program_;
    std::uint32_t ranks_;
    std::vector<Excerpt> excerpts_;  // [phase]
    Excerpt::Part part_ = Excerpt::Part::counted;
    std::uint64_t number_ = 0;  // of the stretch
    reference::JobFrames frames_;
    CacheHierarchy caches_;
    HostMemory host_;
    std::vector<Tlb> tlbs_;
    std::vector<PageTables> tables_;
    std::vector<Dram> drams_;
    std::vector<NodePhase> phases_;
    std::vector<LineAccess> lines_;
    std::vector<std::uint32_t> cleared_;  // frames, in this phase
    std::map<std::uint64_t, std::uint16_t> owners_;
    WalkReads reads_;
    unsigned now_ = 0;
};

// The stretches in which anything happened.
std::vector<NodeStretch> used(const NodePhase& phase) {
    std::vector<NodeStretch> found = phase.stretches;
    std::erase_if(found, [](const NodeStretch& of) { return of.lines + of.cleared == 0; });
    return found;
}

// All that was counted in the phase.
NodeStretch counted(const NodePhase& phase, std::size_t drams) {
    NodeStretch sum;
    sum.drams.resize(drams);
    for (const NodeStretch& of : phase.stretches) {
        sum.lines += of.lines;
        sum.cleared += of.cleared;
        for (std::size_t i = 0; i < cache_counters; ++i) sum.caches[i] += of.caches[i];
        sum.tlb += of.tlb;
        for (std::size_t i = 0; i < drams && !of.drams.empty(); ++i)
            sum.drams[i].add({}, of.drams[i]);
    }
    return sum;
}

std::uint64_t count(const NodePhase& phase, CacheCounter counter) {
    return counted(phase, 0).caches[static_cast<std::size_t>(counter)];
}

void check_equal(const std::vector<NodePhase>& fast, const std::vector<NodePhase>& slow) {
    REQUIRE(fast.size() == slow.size());
    for (std::size_t p = 0; p < fast.size(); ++p) {
        CAPTURE(p);
        CHECK(fast[p].lines == slow[p].lines);
        CHECK(fast[p].cleared == slow[p].cleared);
        CHECK(fast[p].cleared_large == slow[p].cleared_large);
        CHECK(fast[p].large_drams == slow[p].large_drams);
        const std::vector<NodeStretch> some = used(fast[p]), others = used(slow[p]);
        REQUIRE(some.size() == others.size());
        for (std::size_t i = 0; i < some.size(); ++i) {
            CHECK(some[i].lines == others[i].lines);
            CHECK(some[i].cleared == others[i].cleared);
            CHECK(some[i].caches == others[i].caches);
            CHECK(some[i].tlb == others[i].tlb);
            CHECK(some[i].drams == others[i].drams);
        }
        CHECK(fast[p].object_reads == slow[p].object_reads);
        CHECK(fast[p].object_writes == slow[p].object_writes);
    }
}

ListedProgram without(const ListedProgram& program, std::initializer_list<OpKind> kinds) {
    std::vector<Op> ops = program.ops();
    std::erase_if(ops,
                  [&](const Op& op) { return std::ranges::find(kinds, op.kind()) != kinds.end(); });
    const auto pages = program.pages();
    return {
        ops, {pages.begin(), pages.end()}, program.objects(), program.phases(), program.threads()};
}

}  // namespace

TEST_CASE("a node's replay equals its components run line by line") {
    std::uint64_t conflicts = 0, evictions = 0, walks = 0;
    for (const std::uint32_t ranks : {1u, 2u, 3u}) {
        for (const unsigned threads : {1u, 2u}) {
            for (const bool everything : {false, true}) {
                CAPTURE(ranks);
                CAPTURE(threads);
                CAPTURE(everything);
                NodeModel model = small_node(ranks * threads);
                if (everything) {
                    model.tlb = small_tlb();
                    model.drams = {small_dram(RowPolicy::open), small_dram(RowPolicy::ideal)};
                }
                const ListedProgram program = some_program(10 * ranks + threads, threads, 400);
                const auto placement = place_by_kernel(bare(), small_order);
                const NodeCounters fast =
                    replay_node(program, *placement, model, {ranks, {}}, run_on);
                const PlainNode slow(program, model, ranks);
                check_equal(fast.phases, slow.phases());
                for (const NodePhase& phase : fast.phases) {
                    const NodeStretch all = counted(phase, model.drams.size());
                    evictions += all.caches[static_cast<std::size_t>(CacheCounter::sf_evictions)];
                    walks += all.tlb.walks_completed()[0];
                    if (everything) conflicts += all.drams[0].row_conflicts;
                    if (everything) CHECK(all.drams[1].row_conflicts == 0);
                }
            }
        }
    }
    CHECK(conflicts > 0);
    CHECK(evictions > 0);
    CHECK(walks > 0);
}

TEST_CASE("walks of a guest read the entries of its host too") {
    const ListedProgram program = some_program(12, 2, 400);
    const auto asked = [](const NodeCounters& found) {
        std::uint64_t lines = 0;
        for (const NodePhase& phase : found.phases)
            lines +=
                counted(phase, 0).caches[static_cast<std::size_t>(CacheCounter::l2_references)];
        return lines;
    };
    std::vector<std::uint64_t> lines;
    for (const auto host : {std::optional<PageSize>(), std::optional(PageSize::small),
                            std::optional(PageSize::large)}) {
        NodeModel model = small_node(4);
        model.tlb = small_tlb();
        model.host_page = host;
        const auto placement = place_by_kernel(bare(), small_order);
        const NodeCounters fast = replay_node(program, *placement, model, {2, {}}, run_on);
        check_equal(fast.phases, PlainNode(program, model, 2).phases());
        lines.push_back(asked(fast));
    }
    CHECK(lines[1] > lines[0]);
    CHECK(lines[2] == lines[1]);
}

TEST_CASE("a host has each frame of a guest in another place, by whole pages of its own") {
    constexpr std::uint32_t frames = 5 * 512 + 7;
    for (const PageSize page : {PageSize::small, PageSize::large}) {
        const HostMemory host(page, frames);
        std::vector<bool> taken(frames);
        std::uint32_t moved = 0;
        for (std::uint32_t frame = 0; frame < frames; ++frame) {
            const std::uint32_t place = host.frame(frame);
            REQUIRE(place < frames);
            CHECK(!taken[place]);
            taken[place] = true;
            moved += place != frame;
            if (page == PageSize::large) CHECK(place % 512 == frame % 512);
        }
        CHECK(moved > frames / 2);
        CHECK(host.entry(0) == frames * page_bytes);
        CHECK(host.entry(513) - host.entry(0) == (page == PageSize::small ? 8u * 513 : 8u));
        CHECK(host.entry(frames) / page_bytes < frames + host.table_frames());
    }
    CHECK(HostMemory({}, frames).frame(77) == 77);
    CHECK(HostMemory({}, frames).table_frames() == 0);
}

TEST_CASE("a guest's large pages are translated by the pages of its host") {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < 512; ++page) {
        addresses.emplace_back(page);
        ops.push_back(make_op(OpKind::map_write, page, 0, 1));
    }
    for (std::uint32_t i = 0; i < 2000; ++i)
        ops.push_back(make_op(OpKind::fetch, i * 37 % 512, 1, 1));
    const ListedProgram program(ops, addresses, 2, 1, 1);
    using Walks = std::array<std::uint64_t, 2>;  // of small pages, and of large ones
    const auto walks = [&](std::optional<PageSize> host, unsigned order) {
        NodeModel model = small_node(1);
        model.tlb = small_tlb();
        model.host_page = host;
        const auto placement = place_by_kernel(bare(), order);
        const auto found = replay_node(program, *placement, model, {1, {}}, run_on);
        const auto completed = counted(found.phases[0], 0).tlb.walks_completed();
        return Walks{completed[0], completed[1]};
    };
    CHECK(walks({}, small_order) == Walks{2000, 0});
    CHECK(walks({}, huge_order) == Walks{0, 1});
    // The first miss reads three of the host's entries: of two tables and of the page.
    CHECK(walks(PageSize::large, huge_order) == Walks{0, 1 + 3});
    CHECK(walks(PageSize::small, huge_order) == Walks{2000 + 2, 0});
}

TEST_CASE("machines replayed in one pass count as each does alone") {
    const std::vector<Excerpt> excerpts{{3000, 700, 200, 100}, {}, {5000, 1000, 1, 0}};
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const ListedProgram program = some_program(seed, 2, 3000);
        const auto placement = place_by_kernel(bare(), seed == 3 ? huge_order : small_order);
        std::vector<NodeModel> alone, twins;
        for (const unsigned ideal : {0u, 1u, 2u, 3u}) {
            HierarchyModel caches = small_caches(2);
            caches.l2.geometry.fully_associative = (ideal & 1) != 0;
            caches.snoop_filter->fully_associative = (ideal & 2) != 0;
            const auto add = [&](std::vector<NodeModel>& models) {
                const RowPolicy rows = ideal == 1 ? RowPolicy::ideal : RowPolicy::open;
                models.push_back({4, CacheHierarchy(caches), small_tlb(), {small_dram(rows)}});
            };
            CacheGeometry other = caches.l3->geometry;
            other.fully_associative = true;
            add(alone);
            if (ideal != 0) caches.l3_beside = other;
            add(twins);
            if (ideal == 0) continue;
            caches.l3_beside.reset();
            caches.l3->geometry = other;
            add(alone);
        }
        std::vector<const NodeModel*> together;
        for (const NodeModel& model : twins) together.push_back(&model);
        const NodeReplayOptions options{2, seed == 2 ? std::vector<Excerpt>{} : excerpts};
        const auto found = replay_twins(program, *placement, together, options, run_on);
        REQUIRE(found.size() == alone.size());
        for (std::size_t i = 0; i < alone.size(); ++i) {
            CAPTURE(i);
            const NodeCounters slow = replay_node(program, *placement, alone[i], options, run_on);
            check_equal(found[i].phases, slow.phases);
            CHECK(found[i].sf_evictions == slow.sf_evictions);
            CHECK(found[i].huge_pages == slow.huge_pages);
            CHECK((found[i].sf_evictions == 0) == (i >= 3));  // unlimited
        }
    }
}

TEST_CASE("machines whose cores differ are not replayed in one pass") {
    const ListedProgram program = some_program(1, 1, 100);
    const auto placement = place_by_kernel(bare(), small_order);
    const NodeModel one = small_node(4), other{4, CacheHierarchy(small_caches(2)), {}, {}};
    const NodeModel* const models[] = {&one, &other};
    CHECK_THROWS_WITH_AS(replay_twins(program, *placement, models, {1, {}}, run_on),
                         doctest::Contains("models: may differ in what their caches and DRAMs are"),
                         std::invalid_argument);
    CHECK_THROWS_AS(replay_twins(program, *placement, {}, {1, {}}, run_on), std::invalid_argument);
}

TEST_CASE("TLBs count the same where nothing goes through the caches") {
    for (const std::uint64_t seed : {1u, 2u}) {
        const ListedProgram program = some_program(seed, 2, 3000);
        const auto placement = place_by_kernel(bare(), small_order);
        NodeModel model = small_node(4);
        model.tlb = small_tlb();
        NodeReplayOptions options{2, {}};
        if (seed == 2) options.excerpts = {{3000, 700, 200, 100}, {}, {5000, 1000, 1, 0}};
        const NodeCounters all = replay_node(program, *placement, model, options, run_on);
        options.caching = false;
        const NodeCounters some = replay_node(program, *placement, model, options, run_on);
        for (unsigned p = 0; p < program.phases(); ++p) {
            const NodeStretch expected = counted(all.phases[p], 0),
                              found = counted(some.phases[p], 0);
            CHECK(found.tlb == expected.tlb);
            CHECK(found.lines == expected.lines);
            CHECK(some.phases[p].lines == all.phases[p].lines);
            CHECK(found.caches == decltype(found.caches){});
        }
    }
}

TEST_CASE("of L2 a node's replay counts what the replay for memory-side caches counts") {
    // Without frames that come back: there, page clearing leaves stale lines in L2. And without
    // files, whose frames cores share: here a write takes a line from the others.
    const ListedProgram program =
        without(some_program(5, 1, 2000), {OpKind::unmap, OpKind::map_read});
    const auto placement = place_by_kernel(bare(), small_order);
    HierarchyModel caches;
    caches.cores = 3;
    caches.l2.geometry = {128, 4};
    const NodeModel model{3, CacheHierarchy(caches), {}, {}};
    const NodeCounters node = replay_node(program, *placement, model, {3, {}}, run_on);
    ReplayOptions options;
    options.ranks = 3;
    options.scaled = false;
    const Counters other = replay(program, *placement, {128, 4, 1, 0, 1}, options, run_on);
    for (unsigned phase = 0; phase < program.phases(); ++phase) {
        std::uint64_t misses = 0;
        for (unsigned object = 0; object < program.objects(); ++object)
            misses += other.at(phase, object, Component::l2_misses);
        CHECK(count(node.phases[phase], CacheCounter::dram_reads) == misses);
    }
}

using Least = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// Reads and writes of each phase.
Least least_of(const Program& program, std::uint32_t ranks) {
    Least least;
    for (const Compulsory& of : compulsory_by_phase(program, ranks))
        least.emplace_back(of.reads, of.writes);
    return least;
}

TEST_CASE("first fetches are known for each stretch and for each object") {
    const ListedProgram program = without(some_program(8, 2, 4000), {OpKind::unmap});
    const auto placement = place_by_kernel(bare(), small_order);
    HierarchyModel caches;  // it holds everything
    caches.cores = 4;
    caches.l2.geometry = {1u << 14, 16, replacement_by<RandomVictim>, true};
    caches.l2.shared_by = 4;
    const std::vector<Excerpt> excerpts{{3000, 700, 200, 100}, {}, {5000, 1000, 1, 0}};
    const NodeCounters node = replay_node(program, *placement, {4, CacheHierarchy(caches), {}, {}},
                                          {2, excerpts}, run_on);
    const std::vector<Compulsory> least = compulsory_by_phase(program, 2, excerpts);
    std::uint64_t of_stretches = 0, of_all = 0;
    for (unsigned phase = 0; phase < program.phases(); ++phase) {
        const Compulsory& found = least[phase];
        CHECK(std::reduce(found.object_reads.begin(), found.object_reads.end()) == found.reads);
        const auto in_stretches =
            std::reduce(found.stretch_reads.begin(), found.stretch_reads.end());
        const auto& of_objects = found.object_reads_in_stretches;
        CHECK(std::reduce(of_objects.begin(), of_objects.end()) == in_stretches);
        if (excerpts[phase].period == 0) CHECK(in_stretches == found.reads);
        for (std::size_t number = 0; number < found.stretch_reads.size(); ++number) {
            // What was fetched first while it was skipped is another fetch for this replay.
            const auto reads =
                node.phases[phase].stretches[number].caches[std::size_t(CacheCounter::dram_reads)];
            CHECK(found.stretch_reads[number] <= reads);
        }
        of_stretches += in_stretches;
        of_all += found.reads;
    }
    CHECK(of_stretches > 0);
    CHECK(of_stretches < of_all);
}

TEST_CASE("compulsory lines are what memory still does below a cache that holds everything") {
    // Without frames that come back: their lines would still be there.
    const ListedProgram program = without(some_program(6, 1, 2000), {OpKind::unmap});
    const auto placement = place_by_kernel(bare(), small_order);
    HierarchyModel caches;
    caches.cores = 1;
    caches.l2.geometry = {1u << 14, 16, replacement_by<RandomVictim>, true};
    const NodeCounters node =
        replay_node(program, *placement, {1, CacheHierarchy(caches), {}, {}}, {1, {}}, run_on);
    const std::vector<Compulsory> least = compulsory_by_phase(program, 1);
    std::uint64_t reads = 0;
    for (unsigned phase = 0; phase < program.phases(); ++phase) {
        const NodePhase& found = node.phases[phase];
        CHECK(least[phase].reads == count(found, CacheCounter::dram_reads));
        const std::uint64_t only_counted = found.cleared - counted(found, 0).cleared;
        // A non-temporal store to a line that is dirty in a cache is two writes there.
        CHECK(least[phase].writes <= count(found, CacheCounter::dram_writes) + only_counted);
        reads += least[phase].reads;
    }
    CHECK(reads > 0);
}

TEST_CASE("compulsory lines: a page that is handed out again begins anew") {
    const std::vector<Op> ops{make_op(OpKind::map_write, 0, 0),    make_op(OpKind::fetch, 0, 0b11),
                              make_op(OpKind::fetch, 0, 0b111),    make_op(OpKind::unmap, 0, 1),
                              make_op(OpKind::fetch, 0, 0b1000),   make_op(OpKind::map_write, 0, 0),
                              make_op(OpKind::phase, 1, 0),        make_op(OpKind::fetch, 0, 0b1),
                              make_op(OpKind::stream_store, 0, 1), make_op(OpKind::fetch, 0, 0b1)};
    const ListedProgram program(ops, {VirtualPage(1)}, 1, 2, 1);
    CHECK(least_of(program, 1) == Least{{3, 128}, {2, 1}});
}

TEST_CASE("excerpts: parts of a phase by its lines") {
    const Excerpt excerpt{1000, 300, 100};
    CHECK(Excerpt{}.part(12345) == Excerpt::Part::counted);
    const Excerpt later{1000, 300, 100, 600};
    CHECK(later.part(599) == Excerpt::Part::skipped);
    CHECK(later.part(600) == Excerpt::Part::warm_up);
    CHECK(later.part(1700) == Excerpt::Part::counted);
    CHECK(later.part(1900) == Excerpt::Part::skipped);
    for (const std::uint64_t begin : {0u, 5000u}) {
        CHECK(excerpt.part(begin) == Excerpt::Part::warm_up);
        CHECK(excerpt.part(begin + 99) == Excerpt::Part::warm_up);
        CHECK(excerpt.part(begin + 100) == Excerpt::Part::counted);
        CHECK(excerpt.part(begin + 299) == Excerpt::Part::counted);
        CHECK(excerpt.part(begin + 300) == Excerpt::Part::skipped);
        CHECK(excerpt.part(begin + 999) == Excerpt::Part::skipped);
    }
}

TEST_CASE("excerpts: stretches are numbered") {
    const Excerpt excerpt{1000, 300, 100, 200};
    CHECK(excerpt.number(300) == 0);
    CHECK(excerpt.number(1499) == 1);
    CHECK(excerpt.number(7300) == 7);
    CHECK(Excerpt{}.number(12345) == 0);
}

TEST_CASE("large pages are cleared as a whole, whichever stretches there are") {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    const std::uint32_t blocks = 12;
    for (std::uint32_t page = 0; page < blocks * 512; ++page) addresses.emplace_back(page);
    for (std::uint32_t block = 0; block < blocks; ++block) {
        for (std::uint32_t page = 512 * block; page < 512 * (block + 1); ++page)
            ops.push_back(make_op(OpKind::map_write, page, 0, 1));
        for (std::uint32_t page = 512 * block; page < 512 * (block + 1); page += 8)
            ops.push_back(make_op(OpKind::fetch, page, 0xff, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const auto placement = place_by_kernel(bare(), huge_order);
    NodeModel model = small_node(1);
    model.drams = {small_dram(RowPolicy::open)};
    const std::uint64_t cleared = std::uint64_t{blocks} * 512 * 64;
    for (const Excerpt& excerpt : {Excerpt{}, Excerpt{5000, 300, 100, 4000}}) {
        const NodePhase phase =
            replay_node(program, *placement, model, {1, {excerpt}}, run_on).phases[0];
        CHECK(phase.cleared == cleared);
        CHECK(phase.cleared_large == cleared);
        CHECK(phase.large_drams[0].writes == phase.simulated_large);
        CHECK(phase.simulated_large == (excerpt.period == 0 ? cleared : 4u * 512 * 64));
        CHECK(phase.lines == std::uint64_t{blocks} * 64 * 8);
    }
}

TEST_CASE("of large pages, as many lines go through DRAM for many ranks as for some") {
    constexpr std::uint32_t ranks = 40, simulated = (1u << 14) / ranks;
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < 512; ++page) {
        addresses.emplace_back(page);
        ops.push_back(make_op(OpKind::map_write, page, 0, 1));
        ops.push_back(make_op(OpKind::fetch, page, 0xff, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const auto placement = place_by_kernel(NodeState(bare_layout(1u << 15), 1), huge_order);
    NodeModel model = small_node(ranks);
    model.drams = {reference::small_dram(7, 3, 11, RowPolicy::open)};
    std::vector<double> of_line;
    for (const Excerpt& excerpt : {Excerpt{}, Excerpt{100'000, 300, 100, 4000}}) {
        const NodePhase phase =
            replay_node(program, *placement, model, {ranks, {excerpt}}, run_on).phases[0];
        CHECK(phase.cleared_large == std::uint64_t{ranks} * 512 * 64);
        CHECK(phase.simulated_large ==
              (excerpt.period == 0 ? phase.cleared_large : std::uint64_t{ranks} * simulated * 64));
        of_line.push_back(static_cast<double>(phase.large_drams[0].time.raw()) /
                          static_cast<double>(phase.simulated_large));
    }
    CHECK(of_line[1] == doctest::Approx(of_line[0]).epsilon(0.01));
}

namespace {

// Has one large page, and then only pages of a kernel whose pages are of 64 KiB.
class OneLargePage final : public Placement {
  public:
    std::unique_ptr<FrameSource> open(const JobShape&) const override {
        class Source final : public FrameSource {
          public:
            MaybeFrame alloc(const Request& request) override {
                if (request.order == huge_order) return std::exchange(large_, std::nullopt);
                return Frame(std::exchange(next_, next_ + 16));
            }
            void free(const Request&, Frame) override {}

          private:
            MaybeFrame large_ = Frame(node_frames - 512);
            std::uint32_t next_ = 0;
        };
        return std::make_unique<Source>();
    }
    std::uint32_t frames() const override { return node_frames; }
    unsigned page_order() const override { return huge_order; }
    unsigned base_order() const override { return 4; }
};

}  // namespace

TEST_CASE("TLBs of ranks with the same page sizes are followed once, as if each were followed") {
    // First some pages that are too few for a large one, and then more, where ranks differ.
    constexpr std::uint32_t many = 512, few = 20;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < many; ++page) addresses.emplace_back(page);
    for (std::uint32_t page = 0; page < few; ++page) addresses.emplace_back(8192 + page);
    const auto on_numa_nodes = std::make_shared<NumaPlacing>();
    on_numa_nodes->cpus = {3, 0, 2, 1};
    on_numa_nodes->node_of_cpu = {0, 0, 0, 0};
    on_numa_nodes->end_of_node = {node_frames};
    on_numa_nodes->policies = {NumaPolicy{}};
    // Threads exchange their cores after so many of the ops, or never. Once they do, even if a
    // thread exchanges its core with itself, each is followed.
    const auto program = [&](bool each_apart, int exchange) {
        Random random(1, 0, 0, Stream::history);
        std::vector<Op> ops;
        if (each_apart) ops.push_back(make_op(OpKind::swap_threads, 0, 0));
        for (int i = 0; i < 3000; ++i) {
            const std::uint32_t page =
                i < 1000 ? many + random.below(few) : random.below(many + few);
            Op fetch = make_op(OpKind::fetch, page, 1ull << random.below(64), 1);
            fetch.thread = random.below(2) & 1;
            if (i == exchange) ops.push_back(make_op(OpKind::swap_threads, 0, 3));
            if (i % 200 == 0) ops.push_back(make_op(OpKind::unmap, page, 1));
            ops.push_back(make_op(OpKind::map_write, page, 0, 1));
            ops.push_back(fetch);
        }
        return ListedProgram(ops, addresses, 2, 1, 2);
    };
    NodeModel model = small_node(4);
    model.tlb = small_tlb();
    NodeReplayOptions options{2, {}};
    const auto counts = [&](const ListedProgram& of, bool differ) {
        if (differ)
            return counted(replay_node(of, OneLargePage(), model, options, run_on).phases[0], 0);
        const auto placement = place_by_kernel(bare(), small_order);
        return counted(replay_node(of, *placement, model, options, run_on).phases[0], 0);
    };
    for (const bool differ : {false, true}) {
        for (const int exchange : {-1, 500, 2000}) {
            CAPTURE(exchange);
            options.numa = on_numa_nodes;
            const NodeStretch once = counts(program(false, exchange), differ);
            const NodeStretch each = counts(program(true, exchange), differ);
            CHECK(once.tlb == each.tlb);
            CHECK(once.caches == each.caches);
            CHECK((each.tlb.walks_completed()[1] > 0) == differ);
            if (exchange >= 0) continue;
            options.numa = nullptr;
            CHECK(counts(program(false, -1), differ).tlb == each.tlb);
        }
    }
}

TEST_CASE("what ranks are given is cleared to its own size, if only some get a large page") {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < 512; ++page) {
        addresses.emplace_back(page);
        ops.push_back(make_op(OpKind::map_write, page, 0, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    NodeModel model = small_node(2);
    model.drams = {small_dram(RowPolicy::open)};
    const NodePhase phase =
        replay_node(program, OneLargePage(), model, {2, {Excerpt{}}}, run_on).phases[0];
    CHECK(phase.cleared == 2u * 512 * 64);
    CHECK(phase.simulated_large == phase.cleared_large);
    CHECK(phase.large_drams[0].writes == phase.cleared_large);
}

TEST_CASE("recalled lines do not count, and others do, where a phase goes on within a stretch") {
    std::vector<Op> ops;
    for (std::uint32_t page = 0; page < 64; ++page)
        ops.push_back(make_op(OpKind::map_write, page, 0, 1));
    for (std::uint32_t i = 0; i < 3000; ++i) {
        if (i % 3 == 0) ops.push_back(make_op(OpKind::phase, i / 3 % 2, 0));
        ops.push_back(make_op(OpKind::fetch, i * 7 % 64, 0xffull << i % 57, 1));
    }
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < 64; ++page) addresses.emplace_back(page);
    const ListedProgram program(ops, addresses, 2, 2, 1);
    const std::vector<Excerpt> excerpts{{1000, 500, 100, 200, 256}, {900, 300, 100, 400, 256}};
    const auto excerpted_program = excerpted(program, 1, excerpts);
    std::uint64_t recalled = 0;
    for_each_op(*excerpted_program, [&](const Op& op) {
        if (op.kind() == OpKind::recall || op.kind() == OpKind::recall_dirty)
            recalled += static_cast<unsigned>(std::popcount(op.lines));
    });
    CHECK(recalled < 3000 * 8);  // where a stretch goes on, what was skipped meanwhile
    for (const std::uint64_t refilled_above : {std::uint64_t{0}, ~std::uint64_t{0}}) {
        CAPTURE(refilled_above);
        NodeReplayOptions options{.ranks = 1, .excerpts = excerpts};
        options.refilled_above = refilled_above;
        const auto placement = place_by_kernel(bare(), small_order);
        const auto found =
            replay_node(*excerpted_program, *placement, small_node(1), options, run_on);
        for (const NodePhase& phase : found.phases) {
            CHECK(counted(phase, 0).lines > 1000);
            CHECK(count(phase, CacheCounter::accesses) == counted(phase, 0).lines);
        }
    }
}

TEST_CASE("an excerpted program counts as the whole with the same excerpts") {
    std::uint64_t simulated = 0, skipped = 0;
    for (const std::uint64_t seed : {3u, 4u, 5u, 6u}) {
        const ListedProgram program = some_program(seed, 2, 3000);
        const auto placement = place_by_kernel(bare(), small_order);
        NodeModel model = small_node(4);
        model.tlb = small_tlb();
        model.drams = {small_dram(RowPolicy::open)};
        const std::vector<Excerpt> excerpts{
            {3000, 700, 200, 100 * seed}, {}, {5000 + seed, 1000, 1, 0}};
        const auto part = excerpted(program, 2, excerpts);
        std::size_t ops = 0;
        const auto cursor = part->open();
        for (auto some = cursor->next(); !some.empty(); some = cursor->next()) ops += some.size();
        CHECK(ops < program.ops().size());
        const NodeCounters whole = replay_node(program, *placement, model, {2, excerpts}, run_on);
        const NodeCounters fast = replay_node(*part, *placement, model, {2, excerpts}, run_on);
        check_equal(fast.phases, whole.phases);
        for (const NodePhase& phase : whole.phases) {
            const std::uint64_t lines = counted(phase, 1).lines;
            simulated += lines;
            skipped += phase.lines - lines;
        }
    }
    CHECK(simulated > 0);
    CHECK(skipped > simulated);
}

TEST_CASE("excerpts of declared loops count as the whole, though what they skip is only skimmed") {
    using enum StreamKind;
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const auto program = declare_sweeps(
            {.array_pages = {40, 25},
             .sweeps = {{0, true, 1.0, {{0, write}, {1, write}}},
                        {1, false, 1.0, {{0, read}, {1, stream_store}}},
                        {1, false, 1.0, {{0, write, 0, 0, 1, Walk::random}, {1, read, 3, 0, 2.5}}}},
             .phase_repeats = {1, 6},
             .threads = 2,
             .order = LineOrder::all});
        const auto placement = place_by_kernel(bare(), small_order);
        NodeModel model = small_node(4);
        model.drams = {small_dram(RowPolicy::open)};
        const std::vector<Excerpt> excerpts{{3000 + seed, 700, 200, 100 * seed},
                                            {9001, 1000, 300, 7 * seed}};
        const auto part = excerpted(*program, 2, excerpts);
        const NodeCounters whole = replay_node(*program, *placement, model, {2, excerpts}, run_on);
        const NodeCounters fast = replay_node(*part, *placement, model, {2, excerpts}, run_on);
        check_equal(fast.phases, whole.phases);
        CHECK(lines_by_phase(*program, 2) ==
              std::vector{whole.phases[0].lines, whole.phases[1].lines});
    }
}

TEST_CASE("memory that is cleared between stretches is dropped as if each line were cleared") {
    for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
        CAPTURE(seed);
        const ListedProgram program = some_program(seed, 2, 3000);
        const auto placement = place_by_kernel(bare(), small_order);
        NodeModel model = small_node(4);
        if (seed % 2 == 0) model.drams = {small_dram(RowPolicy::open)};
        const std::vector<Excerpt> excerpts{
            {3000, 700, 200, 100 * seed}, {}, {5000 + seed, 1000, 1, 0}};
        const NodeCounters fast = replay_node(program, *placement, model, {2, excerpts}, run_on);
        check_equal(fast.phases, PlainNode(program, model, 2, excerpts).phases());
    }
}

TEST_CASE("an excerpt of a steady program misses as often as all of it") {
    const ListedProgram program = some_program(7, 1, 60000);
    const auto placement = place_by_kernel(bare(), small_order);
    NodeModel model = small_node(2);
    model.drams = {small_dram(RowPolicy::open)};
    struct Sum {
        std::uint64_t lines = 0, counted = 0, reads = 0, row_conflicts = 0;
        [[nodiscard]] double share(std::uint64_t some) const {
            return static_cast<double>(some) / static_cast<double>(counted);
        }
    };
    const auto counts = [&](const Excerpt& excerpt) {
        Sum sum;
        const NodeReplayOptions options{2, {excerpt, excerpt, excerpt}};
        for (const NodePhase& phase :
             replay_node(program, *placement, model, options, run_on).phases) {
            const NodeStretch of_phase = counted(phase, 1);
            sum.lines += phase.lines;
            sum.counted += of_phase.lines;
            sum.reads += of_phase.drams[0].reads;
            sum.row_conflicts += of_phase.drams[0].row_conflicts;
        }
        return sum;
    };
    const Sum all = counts({}), part = counts({20000, 5000, 2000});
    CHECK(all.lines == part.lines);
    CHECK(all.counted == all.lines);
    CHECK(part.counted < part.lines / 5);
    CHECK(part.counted > part.lines / 9);
    CHECK(part.share(part.reads) == doctest::Approx(all.share(all.reads)).epsilon(0.03));
    CHECK(part.share(part.row_conflicts) ==
          doctest::Approx(all.share(all.row_conflicts)).epsilon(0.05));
}

TEST_CASE("lines by phase, and what is refused") {
    std::vector<Op> ops{make_op(OpKind::map_write, 0, 0), make_op(OpKind::fetch, 0, 0b101),
                        make_op(OpKind::phase, 1, 0), make_op(OpKind::stream_store, 0, ~0ull)};
    const ListedProgram program(ops, {VirtualPage(1)}, 1, 2, 1);
    CHECK(most_lines_by_phase(program) == std::vector<std::uint64_t>{66, 64});
    CHECK(lines_by_phase(program, 3) == std::vector<std::uint64_t>{6, 192});
    ops = {make_op(OpKind::fetch, 0, 0b1),     make_op(OpKind::map_read, 0, 7),
           make_op(OpKind::fetch, 0, 0b11111), make_op(OpKind::map_write, 0, 0),
           make_op(OpKind::phase, 1, 0),       make_op(OpKind::fetch, 0, 0b11)};
    // The zero page's none, the file's once.
    CHECK(lines_by_phase(ListedProgram(ops, {VirtualPage(1)}, 1, 2, 1), 3) ==
          std::vector<std::uint64_t>{5, 6});
    CHECK(least_of(ListedProgram(ops, {VirtualPage(1)}, 1, 2, 1), 3) == Least{{5, 192}, {6, 0}});
    const auto placement = place_by_kernel(bare(), small_order);
    const NodeModel model = small_node(1);
    CHECK_THROWS_AS(replay_node(program, *placement, model, {2, {}}, run_on),
                    std::invalid_argument);
    const Excerpt sound{10, 5, 4};
    for (const std::vector<Excerpt>& excerpts :
         {std::vector{sound, Excerpt{10, 11, 0}}, std::vector{Excerpt{10, 5, 5}, sound},
          std::vector{sound, Excerpt{10, 5, 4, 6}}, std::vector{sound}}) {
        CHECK_THROWS_AS(replay_node(program, *placement, model, {1, excerpts}, run_on),
                        std::invalid_argument);
    }
}

TEST_CASE("lines by object: pages are cleared for their first writer, again when they come again") {
    const std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 2),
                              make_op(OpKind::map_write, 0, 0, 1),  // is there already
                              make_op(OpKind::fetch, 0, 0b11, 1),
                              make_op(OpKind::write_back, 0, 0b1, 1),
                              make_op(OpKind::unmap, 0, 1),
                              make_op(OpKind::phase, 1, 0),
                              make_op(OpKind::map_write, 0, 0, 1),
                              make_op(OpKind::stream_store, 0, 0b111, 2)};
    const ListedProgram program(ops, {VirtualPage(1)}, 3, 2, 1);
    const ObjectLines lines = lines_by_object(program);
    CHECK(lines.cleared == std::vector<std::uint64_t>{0, 0, 64, 0, 64, 0});
    CHECK(lines.used == std::vector<std::uint64_t>{0, 2, 3});
    CHECK(lines.threads == std::vector<std::uint32_t>{0, 1, 1});
}

TEST_CASE("lines by object: in sequence is what comes near the last four places of a thread") {
    const auto fetch = [](std::uint32_t page, unsigned line, unsigned thread = 0) {
        return make_op(OpKind::fetch, page, 1ull << line, 0, thread);
    };
    const std::vector<VirtualPage> pages{VirtualPage(10), VirtualPage(11), VirtualPage(50),
                                         VirtualPage(70), VirtualPage(90)};
    const auto in_sequence = [&](std::vector<Op> ops) {
        return lines_by_object(ListedProgram(std::move(ops), pages, 1, 1, 2)).in_sequence[0];
    };
    CHECK(in_sequence({fetch(0, 5)}) == 0);
    CHECK(in_sequence({fetch(0, 5), fetch(0, 7)}) == 1);
    CHECK(in_sequence({fetch(0, 5), fetch(0, 8)}) == 0);
    CHECK(in_sequence({fetch(0, 5), fetch(0, 3)}) == 1);
    CHECK(in_sequence({fetch(0, 63), fetch(1, 0)}) == 1);            // pages are neighbours
    CHECK(in_sequence({fetch(0, 5), fetch(0, 6, 1)}) == 0);          // another thread
    CHECK(in_sequence({make_op(OpKind::fetch, 0, 0b111, 0)}) == 2);  // lines of one op
    CHECK(in_sequence({fetch(0, 5), fetch(2, 0), fetch(3, 0), fetch(4, 0), fetch(0, 6)}) == 1);
    CHECK(in_sequence({fetch(0, 5), fetch(2, 0), fetch(3, 0), fetch(4, 0), fetch(4, 9),
                       fetch(0, 6)}) == 0);  // the fifth place takes the first one's
}

TEST_CASE("node replay: what the kernel clears is its own, whoever uses the page next") {
    const std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1),
                              make_op(OpKind::stream_store, 0, 0b111, 1)};
    const ListedProgram program(ops, {VirtualPage(1)}, 2, 1, 1);
    const auto placement = place_by_kernel(bare(), small_order);
    HierarchyModel caches;
    caches.cores = 1;
    caches.l2.geometry = {1u << 10, 16, replacement_by<Lru>, true};
    const NodeCounters node =
        replay_node(program, *placement, {1, CacheHierarchy(caches), {}, {}}, {1, {}}, run_on);
    CHECK(node.phases[0].object_writes == std::vector<std::uint64_t>{0, 3});
    CHECK(node.phases[0].cleared == 64);
}

TEST_CASE(
    "a page that balancing moves is read near, and threads that swap read each other's pages") {
    const auto fetch = [](std::uint32_t page, unsigned thread) {
        return make_op(OpKind::fetch, page, ~0ull, 1, thread);
    };
    // More pages than the caches hold, so that each pass reads them from memory.
    constexpr std::uint32_t pages = 64;
    std::vector<Op> ops;
    const auto pass = [&] {
        for (std::uint32_t page = 0; page < pages; ++page) ops.push_back(fetch(page, 1));
    };
    for (std::uint32_t page = 0; page < pages; ++page)
        ops.push_back(make_op(OpKind::map_write, page, 0, 1, 0));
    pass();
    ops.push_back(make_op(OpKind::phase, 1, 0));
    for (std::uint32_t page = 0; page < pages; ++page)
        ops.push_back(make_op(OpKind::hint_fault, page, page < pages / 2 ? 1 : 0, 1, 1));
    pass();
    ops.push_back(make_op(OpKind::phase, 2, 0));
    ops.push_back(make_op(OpKind::swap_threads, 0, 1));
    pass();
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(1000 + page);
    const ListedProgram program(ops, addresses, 2, 3, 2);
    auto numa = std::make_shared<NumaPlacing>();
    numa->cpus = {0, 1};
    numa->node_of_cpu = {0, 1};
    numa->end_of_node = {8192, 16384};
    numa->policies = {NumaPolicy{}};
    const auto placement = place_by_kernel(
        NodeState(numa_layout({8192, 8192}, {0, 1}, {10, 20, 20, 10}), 1), small_order);
    NodeReplayOptions options;
    options.numa = numa;
    const NodeCounters found =
        replay_node(program, *placement, small_node(2), options, UnderWay(run_on, nullptr));
    const auto read = [&](unsigned phase, unsigned from, unsigned to) {
        return found.phases[phase].numa_lines[((1 * 2 + from) * 2 + to) * 2];
    };
    constexpr std::uint64_t all = pages * 64;
    CHECK(read(0, 1, 0) == all);
    CHECK(read(1, 1, 0) == all / 2);
    CHECK(read(1, 1, 1) == all / 2);
    CHECK(found.phases[1].hint_faults == pages);
    CHECK(found.phases[1].pages_moved == pages / 2);
    CHECK(found.phases[0].hint_faults + found.phases[2].hint_faults == 0);
    CHECK(read(2, 1, 0) + read(2, 1, 1) == 0);  // thread 1 runs on node 0 now
    CHECK(read(2, 0, 0) > all / 2 * 9 / 10);    // the core that it was on still has some lines
    CHECK(read(2, 0, 1) > all / 2 * 9 / 10);
    CHECK(numa->cpus == std::vector<std::uint32_t>{0, 1});  // another replay begins as this one
}

TEST_CASE("a page that another thread touches first is cleared by that thread") {
    const std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1, 0),
                              make_op(OpKind::map_write, 1, 0, 1, 0)};
    const ListedProgram program(ops, {VirtualPage(1000), VirtualPage(1001)}, 2, 1, 2);
    auto numa = std::make_shared<NumaPlacing>();
    numa->cpus = {0, 1};
    numa->node_of_cpu = {0, 1};
    numa->end_of_node = {8192, 16384};
    numa->policies = {NumaPolicy{}};
    numa->touched_by = {1, NumaPlacing::as_it_is};
    const auto placement = place_by_kernel(
        NodeState(numa_layout({8192, 8192}, {0, 1}, {10, 20, 20, 10}), 1), small_order);
    NodeReplayOptions options;
    options.numa = numa;
    const NodeCounters found =
        replay_node(program, *placement, small_node(2), options, UnderWay(run_on, nullptr));
    CHECK(found.phases[0].numa_cleared == std::vector<std::uint64_t>{64, 0, 0, 64});
}
