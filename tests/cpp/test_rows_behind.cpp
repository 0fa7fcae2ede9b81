#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <utility>

#include "core/replay/replay.hpp"
#include "core/replay/rows_behind.hpp"
#include "tests/cpp/reference_caches.hpp"
#include "tests/cpp/reference_replay.hpp"
#include "tests/cpp/small_dram.hpp"

using namespace pagelens;
using reference::ListedProgram;

namespace {

const std::atomic<bool> run_on{false};
constexpr std::uint32_t node_frames = 1024, slots = 64;

Dram small_dram(RowPolicy policy) { return reference::small_dram(4, 2, 12, policy); }

// Pages come and are read and written, each the same lines every time, in three phases.
ListedProgram some_program(std::uint64_t seed, unsigned threads, int length) {
    constexpr std::uint32_t pages = 90;
    Random random(seed, 0, 0, Stream::history);
    std::vector<std::uint64_t> lines_of;
    for (std::uint32_t page = 0; page < pages; ++page)
        lines_of.push_back(random.below(2) == 0 ? ~0ull : random.bits64() & random.bits64());
    std::vector<Op> ops;
    for (int i = 0; i < length; ++i) {
        const std::uint32_t page = random.below(pages);
        const unsigned thread = random.below(threads), kind = random.below(12);
        const OpKind moves = kind < 2   ? OpKind::stream_store
                             : kind < 5 ? OpKind::write_back
                                        : OpKind::fetch;
        if (random.below(50) == 0) ops.push_back(make_op(OpKind::phase, random.below(3), 0));
        const bool of_file = page % 4 == 0;  // and only read
        if (random.below(3) == 0)
            ops.push_back(of_file ? make_op(OpKind::map_read, page, 1 + page, 1, thread)
                                  : make_op(OpKind::map_write, page, 0, 1, thread));
        ops.push_back(make_op(of_file ? OpKind::fetch : moves, page, lines_of[page], 1, thread));
    }
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < pages; ++p) addresses.emplace_back(0x400 + p);
    return {ops, addresses, 2, 3, threads};
}

// Line by line: every cache set a list, every request to DRAM as it comes.
class PlainRows {
  public:
    PlainRows(const ListedProgram& program, const Placement& placement, std::uint32_t ranks,
              std::uint32_t ways, const std::vector<Excerpt>& excerpts, std::vector<Dram> drams)
        : threads_(program.threads()),
          cache_(std::uint64_t{slots} / ways * 64, ways),
          drams_(std::move(drams)),
          requests_(std::size_t{ranks} * threads_),
          sums_(program.phases() * drams_.size()) {
        reference::JobFrames frames(
            placement.open(
                {ranks, static_cast<std::uint32_t>(program.pages().size()), 0, program.pages()}),
            ranks);
        std::vector<std::uint64_t> place(program.phases());
        for (const Op& op : program.ops()) {
            if (op.kind() == OpKind::phase) phase_ = op.page;
            counted_ = excerpts[phase_].part(place[phase_]) == Excerpt::Part::counted;
            place[phase_] += most_lines(op);
            const auto move = [&](std::uint32_t rank, std::uint64_t frame, std::uint64_t lines) {
                for (std::uint64_t line = 0; line < 64; ++line) {
                    if ((lines >> line & 1) != 0)
                        access(frame * 64 + line, rank * threads_ + op.thread,
                               op.kind() != OpKind::fetch);
                }
            };
            if (op.kind() == OpKind::phase) continue;
            if (op.kind() == OpKind::map_read) {
                frames.map_read(op.page, op.lines);
            } else if (op.kind() == OpKind::map_write) {
                frames.map_write(op.page, [&](std::uint32_t rank, std::uint32_t frame) {
                    move(rank, frame, ~0ull);
                });
            } else if (frames.find(op.page, 0)) {
                for (std::uint32_t rank = 0; rank < ranks; ++rank)
                    move(rank, *frames.find(op.page, rank), op.lines);
            }
        }
        to_dram();
    }
    [[nodiscard]] const std::vector<DramSums>& sums() const { return sums_; }
    [[nodiscard]] std::uint64_t misses() const { return misses_; }

  private:
    void access(std::uint64_t line, std::uint32_t core, bool write) {
        const reference::Outcome outcome = cache_.access(line, write);
        if (outcome.hit || !counted_) return;
        ++misses_;
        request(core, line, 0);
        if (outcome.victim && outcome.victim->dirty)
            request(core, outcome.victim->number, Dram::write_bit);
    }
    void request(std::uint32_t core, std::uint64_t line, std::uint64_t write) {
        if (pending_ == 32768 || (pending_ != 0 && of_phase_ != phase_)) to_dram();
        of_phase_ = phase_;
        ++pending_;
        requests_[core].push_back(line * 64 | write);
    }
    void to_dram() {
        const std::vector<std::span<const std::uint64_t>> spans(requests_.begin(), requests_.end());
        for (std::size_t i = 0; i < drams_.size() && pending_ != 0; ++i) {
            const DramSums before = DramSums::of(drams_[i]);
            drams_[i].run(spans);
            sums_[of_phase_ * drams_.size() + i].add(before, DramSums::of(drams_[i]));
        }
        for (auto& of_core : requests_) of_core.clear();
        pending_ = 0;
    }

    std::uint32_t threads_;
    reference::LruCache cache_;
    std::vector<Dram> drams_;
    std::vector<std::vector<std::uint64_t>> requests_;
    std::vector<DramSums> sums_;
    std::uint64_t pending_ = 0, misses_ = 0;
    unsigned phase_ = 0, of_phase_ = 0;
    bool counted_ = false;
};

struct Drawn {
    std::uint32_t ranks;
    ListedProgram program;
    std::unique_ptr<Placement> placement;
    std::vector<Excerpt> excerpts;
    std::vector<Dram> drams = {small_dram(RowPolicy::open), small_dram(RowPolicy::ideal)};

    explicit Drawn(std::uint64_t seed) : Drawn(seed, Random(seed, 1, 0, Stream::history)) {}

  private:
    Drawn(std::uint64_t seed, Random random)
        : ranks(1 + random.below(4)),
          program(
              some_program(seed, 1 + random.below(3), 300 + static_cast<int>(random.below(3000)))),
          placement(random.below(2) == 0
                        ? place_contiguously(node_frames)
                        : place_by_kernel(NodeState(bare_layout(node_frames), 1), small_order)) {
        for (unsigned phase = 0; phase < 3; ++phase) {
            const std::uint32_t stretch = 500 + random.below(4000), rest = random.below(9000);
            const Excerpt some{stretch + rest, stretch, random.below(stretch),
                               random.below(rest + 1)};
            excerpts.push_back(random.below(4) == 0 ? Excerpt{} : some);
        }
    }
};

ReplayOptions options_for(std::uint32_t ranks, const RowModel* rows) {
    ReplayOptions options;
    options.ranks = ranks;
    options.map_bins = 16;
    options.rows = rows;
    return options;
}

Counters replayed(const Drawn& drawn, std::uint32_t ways, const RowModel& rows,
                  const Sampling& sampling = Sampling()) {
    ReplayOptions options = options_for(drawn.ranks, &rows);
    options.sampling = sampling;
    return replay(drawn.program, *drawn.placement, Hierarchy{0, 1, 1, slots, ways}, options,
                  run_on);
}

// The same, and what the plain version has of it.
std::pair<Counters, PlainRows> replayed_beside_plain(const Drawn& drawn, std::uint32_t ways) {
    const RowStretches stretches(drawn.program, drawn.excerpts);
    const RowModel model{&stretches, most_lines_by_phase(drawn.program), nullptr, drawn.drams};
    return {replayed(drawn, ways, model), PlainRows(drawn.program, *drawn.placement, drawn.ranks,
                                                    ways, drawn.excerpts, drawn.drams)};
}

}  // namespace

TEST_CASE("what misses a memory-side cache meets the rows that it would, line by line") {
    std::uint64_t misses = 0, conflicts = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const auto [counters, plain] = replayed_beside_plain(Drawn(seed), 1);
        CHECK((counters.drams == plain.sums()));
        misses += plain.misses();
        for (const DramSums& sums : plain.sums()) conflicts += sums.row_conflicts;
    }
    CHECK(misses > 1'000'000);
    CHECK(conflicts > 100'000);
}

TEST_CASE("sets of several ways lose what LRU loses") {
    std::uint64_t found = 0, wanted = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        const auto [counters, plain] = replayed_beside_plain(Drawn(seed), seed % 2 == 0 ? 2 : 4);
        for (std::size_t i = 0; i < plain.sums().size(); ++i) {
            CHECK(counters.drams[i].reads == plain.sums()[i].reads);
            found += counters.drams[i].writes;
            wanted += plain.sums()[i].writes;
        }
    }
    // Whether a line came back clean after it was written is not always known: then it counts as
    // dirty.
    CHECK(wanted > 100'000);
    CHECK(found >= wanted);
    CHECK(static_cast<double>(found) < 1.1 * static_cast<double>(wanted));
}

TEST_CASE("stretches say the same whatever the sample of slots, and change no other count") {
    const Drawn drawn(3);
    const RowStretches stretches(drawn.program, drawn.excerpts);
    const RowModel model{&stretches, most_lines_by_phase(drawn.program), nullptr, drawn.drams};
    const Counters all = replayed(drawn, 1, model);
    const Counters some = replayed(drawn, 1, model, Sampling::residue(1, 4, 2, 0xff));
    CHECK((all.drams == some.drams));
    const Counters plain = replay(drawn.program, *drawn.placement, Hierarchy{0, 1, 1, slots, 1},
                                  options_for(drawn.ranks, nullptr), run_on);
    CHECK((plain.table == all.table));
    CHECK(plain.drams.empty());
}

TEST_CASE("caches before keep what they hold from the rows, and write each dirty line once") {
    // One page, more often than once; then twice as many as the cache has slots.
    std::vector<Op> ops;
    for (std::uint32_t page = 0; page < 2 * slots; ++page)
        ops.push_back(make_op(OpKind::map_write, page, 0));
    ops.push_back(make_op(OpKind::phase, 1, 0));
    for (int i = 0; i < 3; ++i) {
        for (const std::uint32_t page : {0u, slots}) {
            ops.push_back(make_op(OpKind::fetch, page, ~0ull, 1));
            ops.push_back(make_op(OpKind::write_back, page, ~0ull, 1));
        }
    }
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < 2 * slots; ++p) addresses.emplace_back(0x400 + p);
    const ListedProgram program(ops, addresses, 2, 2, 1);
    HierarchyModel l2;
    l2.l2.geometry = {64, 4};
    l2.writes_at_once = true;
    const CacheHierarchy caches(l2);
    const std::vector<Excerpt> everything(2);
    const RowStretches stretches(program, everything);
    const auto placement = place_contiguously(node_frames);
    const auto counted = [&](const CacheHierarchy* before) {
        const RowModel model{
            &stretches, most_lines_by_phase(program), before, {small_dram(RowPolicy::open)}};
        return replay(program, *placement, Hierarchy{0, 1, 1, slots, 1}, options_for(1, &model),
                      run_on);
    };
    // Both in one slot: without caches each of the six times one finds the other there.
    CHECK(counted(nullptr).drams[1].reads == 6 * 64);
    // With them each is fetched once, and written once, when the other has not come between.
    CHECK(counted(&caches).drams[1].reads == 2 * 64);
    CHECK(counted(&caches).drams[0].reads == 2 * slots * 64);
}

TEST_CASE("what a page that went has left in its slot is forgotten") {
    const ListedProgram program({make_op(OpKind::map_write, 0, 0), make_op(OpKind::map_write, 1, 0),
                                 make_op(OpKind::unmap, 1, 1), make_op(OpKind::fetch, 0, ~0ull, 1)},
                                {VirtualPage(0x400), VirtualPage(0x401)}, 2, 1, 1);
    const RowStretches stretches(program, {Excerpt{}});
    const RowModel model{
        &stretches, most_lines_by_phase(program), nullptr, {small_dram(RowPolicy::open)}};
    const auto placement = place_as_given({Frame(5), Frame(5 + slots)}, node_frames, small_order);
    const Counters counters =
        replay(program, *placement, Hierarchy{0, 1, 1, slots, 1}, options_for(1, &model), run_on);
    CHECK(counters.drams[0].reads == 2 * 64);  // as if the first had stayed
    CHECK(counters.drams[0].writes == 64);
}

TEST_CASE("a page can go before any stretch has begun") {
    const ListedProgram program({make_op(OpKind::map_write, 0, 0), make_op(OpKind::map_write, 1, 0),
                                 make_op(OpKind::unmap, 1, 1), make_op(OpKind::fetch, 0, ~0ull, 1)},
                                {VirtualPage(0x400), VirtualPage(0x401)}, 2, 1, 1);
    const RowStretches stretches(program, {Excerpt{.period = 192, .stretch = 64, .begin = 128}});
    const RowModel model{
        &stretches, most_lines_by_phase(program), nullptr, {small_dram(RowPolicy::open)}};
    const auto placement = place_as_given({Frame(5), Frame(5 + slots)}, node_frames, small_order);
    const Counters counters =
        replay(program, *placement, Hierarchy{0, 1, 1, slots, 1}, options_for(1, &model), run_on);
    CHECK(counters.drams[0].reads == 0);  // the first page is still there
}

TEST_CASE("a job that is moved to other frames meets its slots there") {
    const ListedProgram program = some_program(5, 1, 6000);
    const std::vector<Excerpt> everything(3);
    const RowStretches stretches(program, everything);
    const RowModel model{
        &stretches, most_lines_by_phase(program), nullptr, {small_dram(RowPolicy::open)}};
    const auto read = [&](double shuffle_above, std::uint64_t& misses) {
        const auto placement =
            place_adaptively(NodeState(bare_layout(node_frames), 1), shuffle_above, 7, 0);
        const Counters counters = replay(program, *placement, Hierarchy{0, 1, 1, slots, 1},
                                         options_for(2, &model), run_on);
        misses = 0;
        for (unsigned phase = 0; phase < 3; ++phase)
            for (unsigned object = 0; object < 2; ++object)
                misses += counters.at(phase, object, Component::msc_misses);
        return counters.drams[0].reads + counters.drams[1].reads + counters.drams[2].reads;
    };
    std::uint64_t misses = 0;
    const std::uint64_t never_moved = read(1, misses);
    CHECK(never_moved == misses);
    const std::uint64_t moved = read(0.1, misses);
    CHECK(moved != never_moved);
    CHECK(moved < misses);  // the moves' own lines are not among those that are timed
    CHECK(static_cast<double>(moved) > 0.85 * static_cast<double>(misses));
}

TEST_CASE("stretches of another program are refused") {
    const Drawn drawn(1);
    const ListedProgram other({}, {VirtualPage(1)}, 2, 3, 1);
    const RowStretches stretches(other, std::vector<Excerpt>(3));
    const RowModel model{&stretches, most_lines_by_phase(drawn.program), nullptr, drawn.drams};
    CHECK_THROWS_WITH_AS(replayed(drawn, 1, model), doctest::Contains("rows"),
                         std::invalid_argument);
}
