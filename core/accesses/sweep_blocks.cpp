#include "core/accesses/sweep_blocks.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/accesses/sweep_program.hpp"

namespace pagelens {
namespace {

// The pages [begin, end) of the program that a stream's walk lies in.
struct Range {
    std::uint64_t begin, end;
};
Range range_of(const SweepProgram& program, const SweepStream& stream) {
    const auto pages = static_cast<std::int64_t>(program.loops().array_pages[stream.array]);
    const auto walked = static_cast<std::int64_t>(program.walked(stream));
    const auto clamped = [&](std::int64_t page) {
        return program.first_page(stream.array) +
               static_cast<std::uint64_t>(std::clamp<std::int64_t>(page, 0, pages));
    };
    return {clamped(stream.shift), clamped(stream.shift + walked)};
}

// Whether every page that a sweep uses has been mapped by then.
bool maps_before_use(const SweepProgram& program) {
    const SweepLoops& loops = program.loops();
    PageSet mapped(program.pages().size());
    for (unsigned phase = 0; phase < loops.phase_repeats.size(); ++phase) {
        // After the second round of a phase the same pages are mapped as after the first.
        for (unsigned round = 0; round < std::clamp(loops.phase_repeats[phase], 1u, 2u); ++round) {
            for (const Sweep& sweep : loops.sweeps) {
                if (sweep.phase != phase) continue;
                for (const SweepStream& stream : sweep.streams) {
                    const Range range = range_of(program, stream);
                    if (sweep.first_touch) mapped.add(range.begin, range.end);
                    if (!mapped.contains_all(range.begin, range.end)) return false;
                }
                for (const unsigned array : sweep.unmapped)
                    mapped.remove(program.first_page(array),
                                  program.first_page(array) + loops.array_pages[array]);
            }
        }
    }
    return true;
}

bool is_random(const Sweep& sweep) {
    return std::ranges::any_of(sweep.streams,
                               [](const SweepStream& s) { return s.walk == Walk::random; });
}

}  // namespace

std::unique_ptr<SweepBlocks> SweepBlocks::of(const Program& program) {
    const auto* const sweeps = dynamic_cast<const SweepProgram*>(&program);
    if (sweeps == nullptr || sweeps->loops().order != LineOrder::by_set ||
        std::ranges::any_of(sweeps->loops().sweeps, is_random) || !maps_before_use(*sweeps))
        return nullptr;
    return std::unique_ptr<SweepBlocks>(new SweepBlocks(*sweeps));
}

SweepBlocks::SweepBlocks(const SweepProgram& program)
    : program_(program), whole_walks_(WholeWalks::of(program)), lines_(program.objects()) {
    for (const Sweep& sweep : program.loops().sweeps) {
        const std::uint64_t repeats = program.loops().phase_repeats[sweep.phase];
        const std::uint64_t turns = program.turns(sweep) + 1;
        turns_of_all_ += repeats * turns;
        moments_of_all_ +=
            repeats * (turns + block_turns) * 3 * program.threads() * sweep.streams.size();
    }
}

float SweepBlocks::done() const {
    return std::min(1.0f, static_cast<float>(turns_before_ + turn_) /
                              static_cast<float>(std::max<std::uint64_t>(turns_of_all_, 1)));
}

bool SweepBlocks::next() {
    const SweepLoops& loops = program_.loops();
    before_.clear();
    if (in_sweep_) {
        turn_ = end_turn_;
        if (turn_ <= turns_) {
            make_block();
            return true;
        }
        for (const unsigned array : loops.sweeps[sweep_].unmapped)
            before_.push_back(make_op(OpKind::unmap,
                                      static_cast<std::uint32_t>(program_.first_page(array)),
                                      loops.array_pages[array]));
        turns_before_ += turns_ + 1;
        if (++sweep_ == phase_end_ && ++round_ < loops.phase_repeats[phase_]) sweep_ = phase_begin_;
    }
    while (sweep_ == phase_end_ && ++phase_ < loops.phase_repeats.size()) {
        before_.push_back(make_op(OpKind::phase, phase_, 0));
        round_ = 0;
        phase_begin_ = phase_end_;
        while (phase_end_ < loops.sweeps.size() && loops.sweeps[phase_end_].phase == phase_)
            ++phase_end_;
    }
    in_sweep_ = sweep_ != phase_end_;
    if (!in_sweep_) return false;
    start(loops.sweeps[sweep_], sweep_);
    make_block();
    return true;
}

void SweepBlocks::start(const Sweep& sweep, std::size_t number) {
    maps_ = sweep.first_touch;
    turns_ = program_.turns(sweep);
    turn_ = 0;
    ways_.clear();
    for (unsigned thread = 0; thread < program_.threads(); ++thread) {
        for (unsigned s = 0; s < sweep.streams.size(); ++s) {
            const SweepStream& stream = sweep.streams[s];
            const auto [first, last] = program_.part(stream, thread);
            const Pattern* const pattern = program_.pattern(number, s);
            const std::uint64_t pages = last - first;
            // Pages of the array wrap around below 0, and are as far outside as above its end.
            const std::uint64_t at = first + static_cast<std::uint64_t>(stream.shift);
            const auto offset = static_cast<std::int64_t>(at);
            const auto array =
                static_cast<std::int64_t>(program_.loops().array_pages[stream.array]);
            const auto clamped = [&](std::int64_t page) {
                return static_cast<std::uint64_t>(
                    std::clamp<std::int64_t>(page, 0, static_cast<std::int64_t>(pages)));
            };
            const std::uint64_t begin = clamped(-offset), end = clamped(array - offset);
            if (begin >= end) continue;
            ways_.push_back({.pages = pages,
                             .whole = turns_ / pages,
                             .part = turns_ % pages,
                             .first = program_.first_page(stream.array) + at,
                             .begin = begin,
                             .end = end,
                             .lines = pattern == nullptr ? nullptr : pattern->data(),
                             .array_page = at,
                             .kind = stream.kind == StreamKind::stream_store ? OpKind::stream_store
                                                                             : OpKind::fetch,
                             .is_written = stream.kind == StreamKind::write,
                             .object = static_cast<std::uint16_t>(stream.array + 1),
                             .thread = thread});
        }
    }
    next_maps_.assign(ways_.size(), 0);
}

std::uint64_t SweepBlocks::Way::lines_at(std::uint64_t at) const {
    return lines == nullptr ? ~0ull : lines[(array_page + at) % pattern_pages];
}

SweepBlocks::Pages SweepBlocks::visited(const Way& way) {
    return {std::max(way.from, way.begin), std::min(way.to, way.end)};
}

SweepBlocks::Pages SweepBlocks::written_back(const Way& way) {
    if (!way.is_written || way.to == 0) return {0, 0};
    return {std::max(std::max<std::uint64_t>(way.from, 1) - 1, way.begin),
            std::min(way.to - 1, way.end)};
}

// The next turns. The last turn of a sweep, after all steps, only writes back.
void SweepBlocks::make_block() {
    end_turn_ = std::min(turn_ + block_turns, turns_ + 1);
    std::ranges::fill(lines_, 0);
    most_lines_ = 0;
    for (Way& way : ways_) {
        way.from = way.to;
        way.to = way.pages == turns_ ? end_turn_ : (end_turn_ - 1) * way.pages / turns_ + 1;
        std::uint64_t lines = 0;
        const auto count = [&](Pages pages) {
            if (pages.begin >= pages.end) return;
            if (way.lines == nullptr) {
                lines += (pages.end - pages.begin) * lines_per_page;
            } else {
                for (std::uint64_t at = pages.begin; at < pages.end; ++at)
                    lines += static_cast<unsigned>(std::popcount(way.lines_at(at)));
            }
        };
        const Pages pages = visited(way);
        count(pages);
        count(written_back(way));
        lines_[way.object] += lines;
        most_lines_ += lines;
        if (maps_ && pages.begin < pages.end)
            most_lines_ += (pages.end - pages.begin) * lines_per_page;
    }
}

std::span<const std::uint32_t> SweepBlocks::maps() {
    pages_.clear();
    if (!maps_) return {};
    for (std::uint64_t turn = turn_; turn < std::min(end_turn_, turns_); ++turn) {
        for (std::size_t number = 0; number < ways_.size(); ++number) {
            if (next_maps_[number] != turn) continue;
            Way& way = ways_[number];
            if (way.mapped >= way.begin && way.mapped < way.end)
                pages_.push_back(static_cast<std::uint32_t>(way.first + way.mapped));
            ++way.mapped;
            const bool is_late = way.early < way.part;
            next_maps_[number] += way.whole + (is_late ? 1 : 0);
            way.early += (is_late ? way.pages : 0) - way.part;
        }
    }
    return pages_;
}

void SweepBlocks::put(std::uint64_t turn, const Op& op) {
    by_way_.push_back(op);
    turn_of_.push_back(static_cast<std::uint8_t>(turn - turn_));
}

std::span<const Op> SweepBlocks::of(const PageSet& wanted) {
    by_way_.clear();
    turn_of_.clear();
    for (const Way& way : ways_) {
        for_wanted(wanted, way, written_back(way), [&](std::uint64_t at, std::uint32_t page) {
            if (const std::uint64_t lines = way.lines_at(at); lines != 0)
                put(turn_of(way, at + 1),
                    make_op(OpKind::write_back, page, lines, way.object, way.thread));
        });
        for_wanted(wanted, way, visited(way), [&](std::uint64_t at, std::uint32_t page) {
            const std::uint64_t turn = turn_of(way, at);
            if (maps_) put(turn, make_op(OpKind::map_write, page, ~0ull, way.object, way.thread));
            if (const std::uint64_t lines = way.lines_at(at); lines != 0)
                put(turn, make_op(way.kind, page, lines, way.object, way.thread));
        });
    }
    put_in_order();
    return by_turn_;
}

// Puts the block's ops in the order of turns, and within a turn leaves them as they are.
void SweepBlocks::put_in_order() {
    std::array<std::uint32_t, block_turns + 1> places{};
    for (const std::uint8_t turn : turn_of_) ++places[turn + 1u];
    for (std::size_t turn = 0; turn < block_turns; ++turn) places[turn + 1] += places[turn];
    by_turn_.resize(by_way_.size());
    for (std::size_t i = 0; i < by_way_.size(); ++i) by_turn_[places[turn_of_[i]]++] = by_way_[i];
}

}  // namespace pagelens
