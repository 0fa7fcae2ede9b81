#include "core/accesses/rank_paths.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>

namespace pagelens {

// Lets the ranks do their segments, as far as they do not wait, and writes down who waits for what.
class RankPaths::Builder {
  public:
    Builder(RankPaths& paths, std::span<const RankSegments> ranks,
            std::span<const std::uint32_t> phases)
        : paths_(paths), ranks_(ranks), phases_(phases), places_(known_places(ranks)) {
        at_.resize(ranks.size());
        pending_.resize(ranks.size());
    }

    void run() {
        for (round_ = 0; round_ < phases_.size(); ++round_) {
            for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) ready_.push_back(rank);
            std::ranges::reverse(ready_);
            while (!ready_.empty() || places_.waiting() > 0) {
                if (ready_.empty()) {
                    places_.break_up([this](std::uint32_t rank) {
                        pending_[rank].reset();
                        ready_.push_back(rank);
                    });
                } else {
                    const std::uint32_t rank = ready_.back();
                    ready_.pop_back();
                    go_on(rank);
                }
            }
            for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
                if (round_ < ranks_[rank].known_from || round_ >= ranks_[rank].known_to)
                    add({StepKind::is_unknown, rank});
            add({StepKind::end_round, 0});
        }
    }

  private:
    struct Coming {
        std::uint32_t turns, round, number;
    };
    using Place = std::map<std::uint32_t, std::vector<Coming>>;  // by rank

    static std::vector<const KnownPlaces*> known_places(std::span<const RankSegments> ranks) {
        std::vector<const KnownPlaces*> known;
        for (const RankSegments& rank : ranks) known.push_back(&rank.places);
        return known;
    }

    void add(const Step& step) {
        if (phases_[round_] != left_out) paths_.steps_[phases_[round_]].push_back(step);
    }

    void go_on(std::uint32_t rank) {
        if (const auto meeting = std::exchange(pending_[rank], std::nullopt)) wait(rank, *meeting);
        const RankSegments& its = ranks_[rank];
        std::size_t& at = at_[rank];
        while (at < its.rounds.size() && its.rounds[at] <= round_) {
            const std::size_t segment = at++;
            add({StepKind::work, rank, 0, its.instructions[segment], its.lines[segment]});
            if (!is_of_some(its.meetings[segment])) continue;
            Meeting meeting = unpacked(its.meetings[segment]);
            const auto& known = its.places.of_job;
            meeting.place = meeting.place < known.size() ? known[meeting.place] : nowhere;
            if (meeting.place == nowhere) continue;
            if (meeting.comes) come(rank, meeting);
            if (!meeting.waits) continue;
            if (!places_.pass(rank, meeting)) {
                pending_[rank] = meeting;
                return;
            }
            wait(rank, meeting);
        }
        if (at == its.rounds.size()) places_.end(rank, free_);
    }

    void come(std::uint32_t rank, const Meeting& meeting) {
        // A cancelled receive gives its turn to the next one, which comes a second time.
        std::vector<Coming>& before = comings_[meeting.place][rank];
        if (before.empty() || before.back().turns <= meeting.turn)
            before.push_back({meeting.turn + 1, round_, paths_.comings_});
        add({StepKind::come, rank, paths_.comings_++});
        places_.come(rank, meeting.place, meeting.turn, free_);
    }

    // It waits for what came in this round; what came before is no wait.
    void wait(std::uint32_t rank, const Meeting& meeting) {
        for (const auto& [other, comings] : comings_[meeting.place]) {
            const auto first = std::ranges::upper_bound(comings, meeting.turn, {}, &Coming::turns);
            const bool was_traced = first != comings.begin() ||
                                    (first != comings.end() && first->turns == meeting.turn + 1);
            if (other != rank && was_traced && first != comings.end() && first->round == round_)
                add({StepKind::wait, rank, first->number});
        }
    }

    RankPaths& paths_;
    std::span<const RankSegments> ranks_;
    std::span<const std::uint32_t> phases_;
    MeetingPlaces places_;
    std::map<std::uint32_t, Place> comings_;       // by place
    std::vector<std::size_t> at_;                  // [rank] its next segment
    std::vector<std::optional<Meeting>> pending_;  // [rank] what it waits for
    std::vector<std::uint32_t> ready_;             // ranks
    std::uint32_t round_ = 0;
    const std::function<void(std::uint32_t)> free_ = [this](std::uint32_t rank) {
        ready_.push_back(rank);
    };
};

RankPaths::RankPaths(std::span<const RankSegments> ranks, std::span<const std::uint32_t> phases)
    : ranks_(static_cast<std::uint32_t>(ranks.size())) {
    for (const RankSegments& rank : ranks) {
        const std::size_t count = rank.rounds.size();
        if (rank.meetings.size() != count || rank.instructions.size() != count ||
            rank.lines.size() != count)
            throw std::invalid_argument("ranks: one value for each segment");
        if (!std::ranges::is_sorted(rank.rounds) ||
            (count > 0 && rank.rounds.back() >= phases.size()))
            throw std::invalid_argument("rounds: ascending, and each has a phase");
    }
    for (const std::uint32_t phase : phases)
        if (phase != left_out && phase >= steps_.size()) steps_.resize(std::size_t{phase} + 1);
    Builder(*this, ranks, phases).run();
}

// Calls `wait(rank, other, time)` where a rank waits for another one. `comings` is room for one
// path of each coming; those that follow many paths allocate it once.
template <class Wait>
RankPaths::Path RankPaths::follow(std::uint32_t phase, double a, double b,
                                  std::vector<Path>& comings, const Wait& wait) const {
    std::vector<Path> at(std::max(ranks_, 1u));
    std::vector<bool> is_unknown(at.size());  // whether the rank waits at the end of the round
    const auto latest = [&](Path& path, const Path& other) {
        if (other.time <= path.time) return;
        wait(path.rank, other.rank, other.time - path.time);
        const std::uint32_t rank = path.rank;
        path = other;
        path.rank = rank;
    };
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) at[rank].rank = rank;
    for (const Step& step : steps_.at(phase)) {
        switch (step.kind) {
            case StepKind::work: {
                Path& path = at[step.rank];
                path.time += a * step.instructions + b * step.lines;
                path.instructions += step.instructions;
                path.lines += step.lines;
                break;
            }
            case StepKind::come:
                comings[step.coming] = at[step.rank];
                break;
            case StepKind::wait:
                latest(at[step.rank], comings[step.coming]);
                break;
            case StepKind::is_unknown:
                is_unknown[step.rank] = true;
                break;
            case StepKind::end_round: {
                const Path last = *std::ranges::max_element(at, {}, &Path::time);
                for (Path& path : at) {
                    const std::uint32_t rank = path.rank;
                    if (is_unknown[rank])
                        path = {last.time, last.instructions, last.lines, rank};
                    else
                        latest(path, last);
                    is_unknown[rank] = false;
                }
                break;
            }
        }
    }
    return at.front();
}

std::vector<RankPaths::Point> RankPaths::longest(std::uint32_t phase, double tolerance) const {
    std::vector<Path> comings(comings_);
    const auto point = [&](double a, double b) {
        const Path path = follow(phase, a, b, comings, [](auto...) {});
        return Point{path.instructions, path.lines};
    };
    const Point most_instructions = point(1, 0), most_lines = point(0, 1);
    std::vector<Point> found{most_instructions};
    refine(phase, tolerance, most_instructions, most_lines, comings, found);
    found.push_back(most_lines);
    return found;
}

// Finds paths that are longer than both where these two are equally long.
void RankPaths::refine(std::uint32_t phase, double tolerance, const Point& from, const Point& to,
                       std::vector<Path>& comings, std::vector<Point>& found) const {
    const double a = to.second - from.second, b = from.first - to.first;
    if (!(a > 0) || !(b > 0)) return;
    const Path path = follow(phase, a, b, comings, [](auto...) {});
    if (path.time <= (a * from.first + b * from.second) * (1 + tolerance)) return;
    const Point between{path.instructions, path.lines};
    refine(phase, tolerance, from, between, comings, found);
    found.push_back(between);
    refine(phase, tolerance, between, to, comings, found);
}

std::vector<double> RankPaths::waits(std::uint32_t phase, double a, double b) const {
    std::vector<double> waited(std::size_t{ranks_} * ranks_);
    std::vector<Path> comings(comings_);
    follow(phase, a, b, comings, [&](std::uint32_t rank, std::uint32_t other, double time) {
        waited[std::size_t{rank} * ranks_ + other] += time;
    });
    return waited;
}

}  // namespace pagelens
