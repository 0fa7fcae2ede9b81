#include "core/accesses/sweeps.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

namespace pagelens {
namespace {

constexpr std::uint64_t all_lines = ~std::uint64_t{0};

class SweepProgram final : public Program {
  public:
    explicit SweepProgram(SweepLoops loops) : loops_(std::move(loops)) {
        std::uint64_t pages = 0;
        for (const std::uint64_t n : loops_.array_pages) {
            first_page_.push_back(pages);
            pages += n;
        }
        pages_.reserve(pages);
        for (std::uint64_t p = 0; p < pages; ++p) pages_.push_back(loops_.padding(VirtualPage(p)));
        count_instructions();
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override;
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return pages_; }
    [[nodiscard]] unsigned objects() const override {
        return static_cast<unsigned>(loops_.array_pages.size()) + 1;
    }
    [[nodiscard]] unsigned phases() const override {
        return static_cast<unsigned>(loops_.phase_repeats.size());
    }
    [[nodiscard]] unsigned threads() const override { return loops_.threads; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instructions_;
    }

    [[nodiscard]] const SweepLoops& loops() const { return loops_; }
    [[nodiscard]] std::uint64_t first_page(unsigned array) const { return first_page_[array]; }

    // The part of an array that is a thread's: pages [begin, end).
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> part(unsigned array,
                                                               unsigned thread) const {
        const std::uint64_t n = loops_.array_pages[array];
        return {n * thread / loops_.threads, n * (thread + 1) / loops_.threads};
    }

    // Turns of a sweep: pages of the longest part of any thread.
    [[nodiscard]] std::uint64_t turns(const Sweep& sweep) const {
        std::uint64_t most = 0;
        for (const SweepStream& s : sweep.streams) {
            most = std::max(most, loops_.array_pages[s.array] / loops_.threads + 1);
        }
        return most;
    }

  private:
    void count_instructions() {
        instructions_.assign(std::size_t{phases()} * threads(), 0);
        for (const Sweep& sweep : loops_.sweeps) {
            std::uint64_t longest = 0;
            for (const SweepStream& s : sweep.streams) {
                longest = std::max(longest, loops_.array_pages[s.array]);
            }
            const double lines = static_cast<double>(longest) * lines_per_page / threads();
            const double repeats = loops_.phase_repeats[sweep.phase];
            for (unsigned t = 0; t < threads(); ++t) {
                instructions_[std::size_t{sweep.phase} * threads() + t] +=
                    static_cast<std::uint64_t>(lines * sweep.instructions_per_line * repeats);
            }
        }
    }

    SweepLoops loops_;
    std::vector<std::uint64_t> first_page_;
    std::vector<VirtualPage> pages_;
    std::vector<std::uint64_t> instructions_;
};

// Walks the sweeps in turns: in one turn each thread visits the next page of each of its streams.
// Threads run in lockstep, as they do between the barriers of a parallel loop.
class SweepCursor final : public Cursor {
  public:
    explicit SweepCursor(const SweepProgram& program) : program_(program) { start_phase(0); }

    std::span<const Op> next() override {
        batch_.clear();
        while (batch_.empty() && phase_ < program_.phases()) {
            if (announce_) {
                batch_.push_back(make_op(OpKind::phase, phase_, 0));
                announce_ = false;
            }
            if (sweep_ == phase_end_) {
                finish_round();
            } else {
                emit_turn();
            }
        }
        return batch_;
    }

  private:
    // One thread's way through its part of a stream's array: of `pages` pages it has reached number
    // floor(turn * pages / turns), which never grows by more than one a turn.
    struct Walk {
        std::uint64_t first;  // page of the array
        std::uint64_t pages;
        std::uint64_t at = 0;         // of the part
        std::uint64_t remainder = 0;  // turn * pages - at * turns
        unsigned stream, thread;
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
        walks_.clear();
        if (sweep_ == phase_end_) return;
        const Sweep& sweep = program_.loops().sweeps[sweep_];
        turns_ = program_.turns(sweep);
        for (unsigned thread = 0; thread < program_.threads(); ++thread) {
            for (unsigned stream = 0; stream < sweep.streams.size(); ++stream) {
                const auto [begin, end] = program_.part(sweep.streams[stream].array, thread);
                walks_.push_back(
                    {.first = begin, .pages = end - begin, .stream = stream, .thread = thread});
            }
        }
    }

    void emit_turn() {
        const Sweep& sweep = program_.loops().sweeps[sweep_];
        std::size_t first = batch_.size();
        for (std::size_t at = 0; at < walks_.size(); ++at) {
            visit(sweep, walks_[at]);
            const bool last = at + 1 == walks_.size() || walks_[at + 1].thread != walks_[at].thread;
            if (!last) continue;
            if (program_.loops().order == LineOrder::all) take_turns(first);
            first = batch_.size();
        }
        // One turn later than its fetch, as lines leave a small cache; the last turn flushes.
        if (++turn_ > turns_) start_sweep(sweep_ + 1);
    }

    // The pages from batch_[first] on, each op with all of its lines, line by line in turn.
    void take_turns(std::size_t first) {
        const auto moves = [](const Op& op) { return op.kind() != OpKind::map_write; };
        const auto begin = batch_.begin() + static_cast<std::ptrdiff_t>(first);
        const auto lines = std::stable_partition(begin, batch_.end(), std::not_fn(moves));
        turn_ops_.assign(lines, batch_.end());
        batch_.erase(lines, batch_.end());
        for (unsigned line = 0; line < lines_per_page; ++line) {
            for (Op op : turn_ops_) {
                op.lines = std::uint64_t{1} << line;
                batch_.push_back(op);
            }
        }
    }

    void visit(const Sweep& sweep, Walk& walk) {
        const SweepStream& s = sweep.streams[walk.stream];
        const std::uint64_t before = walk.at;
        bool moved = turn_ == 0;
        if (turn_ > 0) {
            walk.remainder += walk.pages;
            moved = walk.remainder >= turns_;
            if (moved) {
                walk.remainder -= turns_;
                ++walk.at;
            }
            if (s.kind == StreamKind::write && (turn_ == turns_ ? before < walk.pages : moved))
                emit(OpKind::write_back, s, walk.first + before, walk.thread);
        }
        if (turn_ < turns_ && walk.pages > 0 && moved) {
            if (sweep.first_touch) emit(OpKind::map_write, s, walk.first + walk.at, walk.thread);
            emit(s.kind == StreamKind::stream_store ? OpKind::stream_store : OpKind::fetch, s,
                 walk.first + walk.at, walk.thread);
        }
    }

    void emit(OpKind kind, const SweepStream& s, std::uint64_t page_of_array, unsigned thread) {
        const std::int64_t page = static_cast<std::int64_t>(page_of_array) + s.shift;
        const auto pages = static_cast<std::int64_t>(program_.loops().array_pages[s.array]);
        if (page < 0 || page >= pages) return;
        batch_.push_back(make_op(kind,
                                 static_cast<std::uint32_t>(program_.first_page(s.array) +
                                                            static_cast<std::uint64_t>(page)),
                                 all_lines, static_cast<std::uint16_t>(s.array + 1), thread));
    }

    const SweepProgram& program_;
    std::vector<Op> batch_;    // keeps its capacity: no allocation once the first turns are done
    std::vector<Walk> walks_;  // of the sweep: thread by thread, stream by stream
    std::vector<Op> turn_ops_;
    unsigned phase_ = 0;
    unsigned round_ = 0;
    bool announce_ = false;
    std::size_t phase_begin_ = 0;
    std::size_t phase_end_ = 0;
    std::size_t sweep_ = 0;
    std::uint64_t turn_ = 0, turns_ = 0;
};

std::unique_ptr<Cursor> SweepProgram::open() const { return std::make_unique<SweepCursor>(*this); }

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
        }
    }
}

}  // namespace

std::unique_ptr<Program> declare_sweeps(SweepLoops loops) {
    check(loops);
    return std::make_unique<SweepProgram>(std::move(loops));
}

}  // namespace pagelens
