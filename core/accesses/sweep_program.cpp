#include "core/accesses/sweep_program.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/random/philox.hpp"

namespace pagelens {
namespace {

constexpr std::uint64_t all_lines = ~std::uint64_t{0};

// Number `number` of what a sweep draws from an array, uniform in [0, n); the bias is below
// n / 2^64.
std::uint64_t draw(std::size_t sweep, unsigned round, unsigned array, std::uint64_t number,
                   std::uint64_t n) {
    const PhiloxBlock bits =
        philox4x32({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                    static_cast<std::uint32_t>(sweep), array},
                   {static_cast<std::uint32_t>(Stream::declared_lines), round});
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{std::uint64_t{bits[0]} << 32 | bits[1]} * n) >> 64);
}

// The ops of a batch, in memory that only grows. Room is made for many at a time, so that an op
// goes there straight from registers.
class OpBatch {
  public:
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::span<const Op> ops() const { return {ops_.data(), size_}; }
    void shorten(std::size_t size) { size_ = size; }
    void make_room(std::size_t more) {
        if (ops_.size() < size_ + more) ops_.resize(2 * (size_ + more));
    }
    // Precondition: there is room.
    void put(const Op& op) { ops_[size_++] = op; }
    // Each op's page becomes the next one.
    void next_pages() {
        for (Op& op : std::span(ops_.data(), size_)) {
            // As one word: a later read of it need not wait for a store of a part.
            const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(op);
            op = std::bit_cast<Op>(std::array{words[0] + 1, words[1]});
        }
    }

  private:
    std::vector<Op> ops_;
    std::size_t size_ = 0;
};

// Walks the sweeps in turns: in one turn each thread visits the next page of each of its streams.
// Threads run in lockstep, as they do between the barriers of a parallel loop.
class SweepCursor final : public Cursor {
  public:
    explicit SweepCursor(const SweepProgram& program)
        : program_(program), visits_of_all_(program.visits()) {
        start_phase(0);
    }

    std::span<const Op> next() override {
        in_lines_ = in_order();
        return advance();
    }
    [[nodiscard]] float done() const override {
        return std::min(1.0f, static_cast<float>(visits_done_) /
                                  static_cast<float>(std::max<std::uint64_t>(visits_of_all_, 1)));
    }
    [[nodiscard]] bool skims() const override { return in_order(); }
    std::span<const Op> skim() override {
        in_lines_ = false;
        return advance();
    }
    std::span<const Op> in_full() override {
        in_lines_ = true;
        const auto after = batch_.ops().subspan(last_end_);
        const std::vector<Op> last(after.begin(), after.end());
        batch_.shorten(last_begin_);
        batch_.make_room(visits_.size() * lines_per_page + last.size());
        emit_lines();
        for (const Op& op : last) batch_.put(op);
        return batch_.ops();
    }

  private:
    [[nodiscard]] bool in_order() const { return program_.loops().order == LineOrder::all; }

    std::span<const Op> advance() {
        if (alike_ > 0) {
            --alike_;
            ++turn_;
            visits_done_ += visits_of_turn_;
            batch_.next_pages();
            return batch_.ops();
        }
        batch_.shorten(0);
        while (batch_.size() == 0 && phase_ < program_.phases()) {
            if (announce_) {
                batch_.make_room(1);
                batch_.put(make_op(OpKind::phase, phase_, 0));
                announce_ = false;
            }
            if (sweep_ == phase_end_) {
                finish_round();
            } else {
                emit_turn();
            }
        }
        return batch_.ops();
    }

    // One thread's way through its part of a stream. It reaches page `at` of the part's `pages` in
    // turn ceil(at * turns / pages), and its end in the last one; the turn of the next step is in
    // next_, apart from the rest, because most ways stand still in most turns.
    struct Way {
        const SweepStream* stream;
        const Pattern* pattern;
        std::uint64_t first_page, array_pages;  // of the stream's array
        std::uint64_t first;                    // page of the walk
        std::uint64_t pages;                    // at least 1
        std::uint64_t whole;                    // turns / pages: so many turns to the next page ...
        std::uint64_t part;                     // turns % pages: ... and so many parts of a turn
        std::uint64_t early = 0;    // parts by which the next step is later than it need be
        std::uint64_t at = 0;       // of the part
        std::uint64_t stepped = 0;  // the turn of the last step
        unsigned thread;

        // The page of the array that it is at.
        [[nodiscard]] std::uint64_t page() const {
            return first + at + static_cast<std::uint64_t>(stream->shift);
        }
    };

    void start_phase(unsigned phase) {
        const auto& sweeps = program_.loops().sweeps;
        phase_ = phase;
        round_ = 0;
        announce_ = true;
        phase_begin_ = phase_end_;
        while (phase_end_ < sweeps.size() && sweeps[phase_end_].phase == phase) ++phase_end_;
        start_sweep(phase_begin_);
    }

    void finish_round() {
        if (++round_ < program_.loops().phase_repeats[phase_] && phase_begin_ != phase_end_) {
            start_sweep(phase_begin_);
        } else {
            start_phase(phase_ + 1);
        }
    }

    void start_sweep(std::size_t number) {
        sweep_ = number;
        turn_ = 0;
        ways_.clear();
        next_.clear();
        if (sweep_ == phase_end_) return;
        const Sweep& sweep = program_.loops().sweeps[sweep_];
        turns_ = program_.turns(sweep);
        visits_of_turn_ = SweepProgram::visits_of_turn(sweep);
        for (unsigned thread = 0; thread < program_.threads(); ++thread) {
            for (unsigned stream = 0; stream < sweep.streams.size(); ++stream) {
                const auto [begin, end] = program_.part(sweep.streams[stream], thread);
                if (begin == end) continue;
                ways_.push_back(
                    {.stream = &sweep.streams[stream],
                     .pattern = program_.pattern(sweep_, stream),
                     .first_page = program_.first_page(sweep.streams[stream].array),
                     .array_pages = program_.loops().array_pages[sweep.streams[stream].array],
                     .first = begin,
                     .pages = end - begin,
                     .whole = turns_ / (end - begin),
                     .part = turns_ % (end - begin),
                     .thread = thread});
                next_.push_back(0);
            }
        }
    }

    // One thread's visit to a page of a stream's walk, in its turn.
    struct Visit {
        OpKind kind;
        const SweepStream* stream;
        const Pattern* pattern;
        std::uint64_t first_page, array_pages;
        std::uint64_t at;  // of the walk
        unsigned thread;
    };

    void emit_turn() {
        const Sweep& sweep = program_.loops().sweeps[sweep_];
        batch_.make_room(most_of_turn * ways_.size() * (in_order() ? lines_per_page : 1) +
                         sweep.unmapped.size());
        if (in_order()) {
            visits_.clear();
            for (std::size_t at = 0; at < ways_.size(); ++at)
                take_turn(sweep, at, [this](const Visit& v) { visits_.push_back(v); });
            of_sweep_ = sweep_;
            of_round_ = round_;
            last_begin_ = batch_.size();
            emit_lines();
            last_end_ = batch_.size();
        } else {
            of_sweep_ = sweep_;
            of_round_ = round_;
            for (std::size_t at = 0; at < ways_.size(); ++at)
                take_turn(sweep, at, [this](const Visit& v) { emit_page(v); });
        }
        visits_done_ += visits_of_turn_;
        // One turn later than its fetch, as lines leave a small cache; the last turn flushes.
        if (++turn_ <= turns_) return look_ahead();
        for (const unsigned array : sweep.unmapped) {
            batch_.put(make_op(OpKind::unmap,
                               static_cast<std::uint32_t>(program_.first_page(array)),
                               program_.loops().array_pages[array]));
        }
        start_sweep(sweep_ + 1);
    }

    static constexpr std::size_t most_of_turn = 3;  // things that a way does
    // Calls visited(Visit) for each thing that one way does in this turn.
    template <class Visited>
    void take_turn(const Sweep& sweep, std::size_t number, Visited&& visited) {
        if (next_[number] != turn_) return;
        Way& way = ways_[number];
        const StreamKind kind = way.stream->kind;
        const auto visit = [&](OpKind op) {
            visited(Visit{op, way.stream, way.pattern, way.first_page, way.array_pages,
                          way.first + way.at, way.thread});
        };
        if (turn_ > 0) {
            if (kind == StreamKind::write) visit(OpKind::write_back);
            ++way.at;
        }
        if (turn_ < turns_) {
            if (sweep.first_touch) visit(OpKind::map_write);
            visit(kind == StreamKind::stream_store ? OpKind::stream_store : OpKind::fetch);
        }
        way.stepped = turn_;
        next_[number] += way.whole + (way.early < way.part ? 1 : 0);
        way.early += (way.early < way.part ? way.pages : 0) - way.part;
    }

    // Finds how many turns follow whose ops are those of the last one, each of the next page, and
    // takes all ways there. The first turn only fetches, the last one only writes back.
    void look_ahead() {
        if (in_order() || batch_.size() == 0 || turn_ < 2 || turn_ >= turns_) return;
        std::uint64_t turns = turns_ - turn_;
        for (std::size_t at = 0; at < ways_.size() && turns != 0; ++at)
            turns = std::min(turns, turns_alike(ways_[at], next_[at]));
        if (turns == 0) return;
        for (std::size_t at = 0; at < ways_.size(); ++at) {
            if (next_[at] != turn_) continue;
            next_[at] += turns;
            ways_[at].early -= turns * ways_[at].part;
            ways_[at].at += turns;
        }
        alike_ = turns;
    }
    // In how many turns from now on a way stands still, if it did so in the last one, or else does
    // the same as then with the next page.
    [[nodiscard]] std::uint64_t turns_alike(const Way& way, std::uint64_t next) const {
        if (way.stepped != turn_ - 1) return next - turn_;
        const bool whole_pages = way.pattern == nullptr && way.stream->walk != Walk::random;
        if (next != turn_ || way.whole != 1 || !whole_pages) return 0;
        // Both pages of the last turn lie in the array, or both lie outside; so do the next ones.
        const std::uint64_t page = way.page();
        const bool inside = page < way.array_pages;
        if (inside != (page - 1 < way.array_pages)) return 0;
        const std::uint64_t to_edge = inside ? way.array_pages - 1 - page : ~page;
        return way.part == 0 ? to_edge : std::min(to_edge, way.early / way.part);
    }

    // The turn's pages, thread by thread: line by line in turn, or only skimmed.
    void emit_lines() {
        for (auto from = visits_.begin(); from != visits_.end();) {
            const auto to = std::find_if(from, visits_.end(),
                                         [&](const Visit& v) { return v.thread != from->thread; });
            emit_lines({from, to});
            from = to;
        }
    }
    void emit_lines(std::span<const Visit> visits) {
        for (const Visit& v : visits) {
            if (v.kind == OpKind::map_write) emit_page(v);
        }
        for (unsigned line = 0; line < (in_lines_ ? lines_per_page : 0); ++line) {
            for (const Visit& v : visits) {
                if (v.kind != OpKind::map_write) emit_line(v, line);
            }
        }
        if (in_lines_) return;
        for (const Visit& v : visits) {
            if (v.kind != OpKind::map_write) emit_page(v);
        }
    }

    void emit_page(const Visit& v) {
        if (v.stream->walk == Walk::random) {
            emit(v, draw_from(v, v.at, v.array_pages), all_lines);
        } else if (const auto page = page_of(v); page < v.array_pages) {
            emit(v, page, lines_of(v, page));
        }
    }

    void emit_line(const Visit& v, unsigned line) {
        if (v.stream->walk == Walk::random) {
            const std::uint64_t drawn =
                draw_from(v, v.at * lines_per_page + line, v.array_pages * lines_per_page);
            emit(v, drawn / lines_per_page, std::uint64_t{1} << drawn % lines_per_page);
        } else if (const auto page = page_of(v); page < v.array_pages) {
            emit(v, page, lines_of(v, page) & std::uint64_t{1} << line);
        }
    }

    // The page of the array, or at least `array_pages` if the visit lies outside of it.
    [[nodiscard]] static std::uint64_t page_of(const Visit& v) {
        return v.at + static_cast<std::uint64_t>(v.stream->shift);
    }
    [[nodiscard]] static std::uint64_t lines_of(const Visit& v, std::uint64_t page) {
        const bool all = v.kind == OpKind::map_write || v.pattern == nullptr;
        return all ? all_lines : (*v.pattern)[page % pattern_pages];
    }
    [[nodiscard]] std::uint64_t draw_from(const Visit& v, std::uint64_t number,
                                          std::uint64_t n) const {
        return draw(of_sweep_, of_round_, v.stream->array, number, n);
    }

    void emit(const Visit& v, std::uint64_t page_of_array, std::uint64_t lines) {
        if (lines == 0) return;
        batch_.put(make_op(v.kind, static_cast<std::uint32_t>(v.first_page + page_of_array), lines,
                           static_cast<std::uint16_t>(v.stream->array + 1), v.thread));
    }

    const SweepProgram& program_;
    std::uint64_t visits_of_all_, visits_of_turn_ = 0, visits_done_ = 0;
    OpBatch batch_;
    std::vector<Way> ways_;            // of the sweep: thread by thread, stream by stream
    std::vector<std::uint64_t> next_;  // [way] the turn in which it takes its next step
    std::vector<Visit> visits_;        // of the turn, where lines are in order
    std::size_t of_sweep_ = 0;         // of the turn
    unsigned of_round_ = 0;
    std::size_t last_begin_ = 0, last_end_ = 0;  // of the visits' ops in the batch
    bool in_lines_ = false;                      // whether these are emitted line by line
    unsigned phase_ = 0;
    unsigned round_ = 0;
    bool announce_ = false;
    std::size_t phase_begin_ = 0;
    std::size_t phase_end_ = 0;
    std::size_t sweep_ = 0;
    std::uint64_t turn_ = 0, turns_ = 0;
    std::uint64_t alike_ = 0;  // turns that have the last one's ops, each of the next page
};

void check(const SweepLoops& loops) {
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw std::invalid_argument(what);
    };
    require(loops.threads >= 1 && loops.threads < 4096, "threads must lie in 1..4095");
    require(!loops.array_pages.empty() && loops.array_pages.size() < 65535, "arrays: 1..65534");
    require(!loops.phase_repeats.empty() && !loops.sweeps.empty(), "nothing is swept");
    std::uint64_t pages = 0;
    for (const std::uint64_t n : loops.array_pages) {
        require(n >= loops.threads, "every array must have at least one page for each thread");
        pages += n;
    }
    require(pages <= std::numeric_limits<std::uint32_t>::max(), "more than 2^32 pages");
    unsigned phase = 0;
    for (const Sweep& sweep : loops.sweeps) {
        require(sweep.phase >= phase && sweep.phase < loops.phase_repeats.size(),
                "sweeps must come in the order of their phases");
        phase = sweep.phase;
        for (const SweepStream& s : sweep.streams) {
            require(s.array < loops.array_pages.size(),
                    "a stream names an array that is not declared");
            require(s.stride >= 1, "a stream's stride must be 1 or more lines");
            require(s.walk != Walk::random || !sweep.first_touch,
                    "pages that are drawn must have been touched before");
        }
        for (const unsigned array : sweep.unmapped) {
            require(array < loops.array_pages.size(),
                    "a sweep gives back an array that is not declared");
        }
    }
}

}  // namespace

std::unique_ptr<Cursor> SweepProgram::open() const { return std::make_unique<SweepCursor>(*this); }

std::unique_ptr<Program> declare_sweeps(SweepLoops loops) {
    check(loops);
    return std::make_unique<SweepProgram>(std::move(loops));
}

}  // namespace pagelens
