// Ranks that wait for some of the others: the order of their lines in a job, and the time of their
// segments, for drawn programs and against a slow count.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "core/accesses/job.hpp"
#include "core/accesses/rank_paths.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t meets_all = 8;  // at least the number of ranks

// What a rank does up to a meeting.
struct Part {
    double instructions, lines;
    std::uint64_t meeting;
};
using Ranks = std::vector<std::vector<Part>>;

// Ranks that could do this: what one waits for, another one has begun with no knowledge of it.
class Drawn {
  public:
    explicit Drawn(std::uint32_t seed) : ranks(2 + seed % 7), engine_(seed) {
        for (int step = 0; step < 40; ++step) {
            switch (below(7)) {
                case 0:
                case 1:
                    send(below(size()), below(size()), below(2));
                    break;
                case 2:
                    receive();
                    break;
                case 3:
                    collective(below(size()));
                    break;
                case 4:
                    exchange(below(size()));
                    break;
                case 5:
                    wait_as_sender();
                    break;
                default:
                    if (below(4) == 0)
                        for (std::uint32_t rank = 0; rank < size(); ++rank) add(rank, meets_all);
            }
        }
        while (!sent_.empty()) receive();
        while (!received_.empty()) wait_as_sender();
        for (std::uint32_t rank = 0; rank < size(); ++rank) add(rank, 0);
    }

    // Keeps a part of each rank's run, as a trace does that begins late and is cut.
    void cut() {
        for (std::size_t rank = 0; rank < size(); ++rank) {
            auto& parts = ranks[rank];
            parts.resize(1 + below(static_cast<std::uint32_t>(parts.size())));
            const auto met = std::ranges::find(parts, meets_all, &Part::meeting);
            parts.erase(parts.begin(),
                        parts.begin() + below(static_cast<std::uint32_t>(met - parts.begin()) + 1));
            auto& first = places[rank].first_turns;
            std::ranges::fill(first, nowhere);
            for (const Part& part : parts)
                if (const Meeting its = unpacked(part.meeting);
                    is_of_some(part.meeting) && its.comes)
                    first[its.place] = std::min(first[its.place], its.turn);
        }
    }

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks.size()); }

    Ranks ranks;
    std::vector<KnownPlaces> places{std::vector<KnownPlaces>(ranks.size(), {{}, {}})};

  private:
    struct Message {
        std::uint32_t from, to, place, turn;
    };

    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }

    void add(std::uint32_t rank, std::uint64_t meeting) {
        ranks[rank].push_back({double(below(9)), double(below(9)), meeting});
    }
    void meet(std::uint32_t rank, const Meeting& meeting) {
        auto& [of_job, first] = places[rank];
        while (of_job.size() <= meeting.place) {
            of_job.push_back(static_cast<std::uint32_t>(of_job.size()));
            first.push_back(nowhere);
        }
        if (meeting.comes) first[meeting.place] = std::min(first[meeting.place], meeting.turn);
        add(rank, packed(meeting));
    }

    // Of a place with tag 1, receives are posted before or after the send, and the sender waits for
    // them some time later. Others are requests from any source, which come to no place.
    void send(std::uint32_t from, std::uint32_t to, std::uint32_t tag) {
        const std::uint32_t place = (from * size() + to) * 2 + tag;
        const std::uint32_t turn = turns_[place]++;
        const bool is_early = below(2) == 0, comes = tag == 1 && below(4) > 0;
        if (comes && is_early) meet(to, {true, false, place, turn});
        meet(from, {true, false, place, turn});
        if (comes && !is_early) meet(to, {true, false, place, turn});
        sent_.push_back({from, to, place, turn});
        if (comes) received_.push_back(sent_.back());
    }
    void wait_as_sender() {
        if (received_.empty()) return;
        const Message one = received_.back();
        meet(one.from, {false, true, one.place, one.turn, true});
        received_.pop_back();
    }
    // A receiver and a sender wait for each other.
    void exchange(std::uint32_t from) {
        const std::uint32_t to = (from + 1) % size(), place = 200 + from, turn = turns_[place]++;
        meet(from, {true, true, place, turn, true});
        meet(to, {true, true, place, turn});
    }
    // Of a place, any of those that were sent may be received first.
    void receive() {
        if (sent_.empty()) return;
        const auto one = sent_.begin() + below(static_cast<std::uint32_t>(sent_.size()));
        meet(one->to, {false, true, one->place, one->turn});
        sent_.erase(one);
    }
    // All but one rank, which each wait for each other, or one waits, or all wait for one.
    void collective(std::uint32_t without) {
        const std::uint32_t kind = below(3), place = 150 + without * 3 + kind;
        const std::uint32_t turn = turns_[place]++;
        bool is_first = true;
        for (std::uint32_t rank = 0; rank < size(); ++rank) {
            if (rank == without) continue;
            const bool is_root = std::exchange(is_first, false);
            meet(rank, {kind == 0 || (kind == 1) != is_root, kind == 0 || (kind == 1) == is_root,
                        place, turn});
        }
    }

    std::mt19937 engine_;
    std::map<std::uint32_t, std::uint32_t> turns_;
    std::vector<Message> sent_, received_;
};

// When a part of a rank is over, and when the rank has waited at its end.
struct Times {
    double over, goes_on;
};

// Lets all ranks do their parts again and again, until no time changes.
double slow_seconds(const Ranks& ranks, double a, double b) {
    std::vector<std::vector<Times>> times;
    for (const auto& parts : ranks) times.emplace_back(parts.size(), Times{0, 0});
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            std::size_t met = 0;
            for (std::size_t i = 0; i < ranks[rank].size(); ++i) {
                const Part& part = ranks[rank][i];
                const double begins = i == 0 ? 0 : times[rank][i - 1].goes_on;
                Times now{begins + a * part.instructions + b * part.lines, 0};
                now.goes_on = now.over;
                met += part.meeting == meets_all;
                for (std::size_t other = 0; other < ranks.size(); ++other) {
                    std::size_t others_met = 0;
                    for (std::size_t j = 0; j < ranks[other].size(); ++j) {
                        const std::uint64_t its = ranks[other][j].meeting;
                        others_met += its == meets_all;
                        const bool all =
                            part.meeting == meets_all && its == meets_all && met == others_met;
                        const Meeting one = unpacked(part.meeting), two = unpacked(its);
                        const bool some = is_of_some(part.meeting) && is_of_some(its) &&
                                          one.waits && two.comes && one.place == two.place &&
                                          one.turn == two.turn;
                        if (all || some) now.goes_on = std::max(now.goes_on, times[other][j].over);
                    }
                }
                changed = changed || now.goes_on != times[rank][i].goes_on;
                times[rank][i] = now;
            }
        }
    }
    double last = 0;
    for (const auto& of_rank : times) last = std::max(last, of_rank.back().goes_on);
    return last;
}

RankPaths paths_of(const Drawn& drawn) {
    std::vector<RankSegments> segments(drawn.size());
    std::uint32_t most = 0;
    for (std::size_t rank = 0; rank < drawn.size(); ++rank) {
        RankSegments& its = segments[rank];
        its.places = drawn.places[rank];
        std::uint32_t rounds = 0;
        for (const Part& part : drawn.ranks[rank]) {
            its.rounds.push_back(rounds);
            its.meetings.push_back(part.meeting);
            its.instructions.push_back(part.instructions);
            its.lines.push_back(part.lines);
            rounds += part.meeting == meets_all;
        }
        most = std::max(most, rounds);
    }
    return RankPaths(segments, std::vector<std::uint32_t>(most + 1, 0));
}

// Each part is as many fetches as it has lines, of a page that no other part has. Returns when each
// part [rank][part] had its first and its last line in the job.
struct Moments {
    std::size_t first = ~std::size_t{0}, last = 0;
};
std::vector<std::vector<Moments>> order_in_job(const Drawn& drawn) {
    std::vector<Process> processes;
    std::vector<std::vector<Moments>> found;
    for (std::size_t rank = 0; rank < drawn.size(); ++rank) {
        std::vector<Op> ops;
        std::vector<VirtualPage> pages;
        for (const Part& part : drawn.ranks[rank]) {
            const auto page = static_cast<std::uint32_t>(pages.size());
            for (int line = 0; line < part.lines; ++line)
                ops.push_back(make_op(OpKind::fetch, page, 1));
            if (part.meeting != 0) ops.push_back(make_op(OpKind::meet, 0, part.meeting));
            pages.emplace_back(page);
        }
        found.emplace_back(pages.size());
        Process process{
            std::make_shared<reference::ListedProgram>(ops, pages, 1, 1, 1), {0}, {0}, {}};
        process.places = drawn.places[rank];
        processes.push_back(std::move(process));
    }
    const auto job = job_of(processes, 1, 1, meets_all);
    std::size_t moment = 0;
    for_each_op(*job, [&](const Op& op) {
        const std::uint64_t page = job->pages()[op.page].raw() & ((1ull << space_shift) - 1);
        Moments& its = found[op.thread][page];
        its.first = std::min(its.first, ++moment);
        its.last = moment;
    });
    return found;
}

}  // namespace

TEST_CASE("the longest path through the segments of ranks is the time of a slow count") {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        const Drawn drawn(seed);
        const RankPaths paths = paths_of(drawn);
        const auto longest = paths.longest(0, 0);
        for (const auto& [a, b] : {std::pair{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}, {3.0, 2.0}}) {
            double found = 0;
            for (const auto& [instructions, lines] : longest)
                found = std::max(found, a * instructions + b * lines);
            CHECK(found == doctest::Approx(slow_seconds(drawn.ranks, a, b)));
            const auto waits = paths.waits(0, a, b);
            for (std::size_t rank = 0; rank < drawn.size(); ++rank) {
                double busy = 0;
                for (const Part& part : drawn.ranks[rank])
                    busy += a * part.instructions + b * part.lines;
                for (std::size_t other = 0; other < drawn.size(); ++other)
                    busy += waits[rank * drawn.size() + other];
                CHECK(busy == doctest::Approx(found));
            }
        }
    }
}

TEST_CASE("in a job, no rank goes on before all that it waits for have come") {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        const Drawn drawn(seed);
        const auto moments = order_in_job(drawn);
        std::size_t lines = 0, expected = 0;
        for (std::size_t rank = 0; rank < drawn.size(); ++rank) {
            for (std::size_t i = 0; i < drawn.ranks[rank].size(); ++i) {
                const Part& part = drawn.ranks[rank][i];
                expected += static_cast<std::size_t>(part.lines);
                lines = std::max(lines, moments[rank][i].last);
                const Meeting wait = unpacked(part.meeting);
                if (!is_of_some(part.meeting) || !wait.waits) continue;
                for (std::size_t other = 0; other < drawn.size(); ++other) {
                    for (std::size_t j = 0; j < drawn.ranks[other].size(); ++j) {
                        const std::uint64_t its = drawn.ranks[other][j].meeting;
                        const Meeting come = unpacked(its);
                        if (!is_of_some(its) || !come.comes || come.place != wait.place ||
                            come.turn != wait.turn)
                            continue;
                        if (other == rank) continue;
                        std::size_t goes_on = ~std::size_t{0}, has_come = 0;
                        for (std::size_t later = i + 1; later < moments[rank].size(); ++later)
                            goes_on = std::min(goes_on, moments[rank][later].first);
                        for (std::size_t before = 0; before <= j; ++before)
                            has_come = std::max(has_come, moments[other][before].last);
                        CHECK(goes_on > has_come);
                    }
                }
            }
        }
        CHECK(lines == expected);
    }
}

TEST_CASE("ranks whose records contradict each other all come to their end") {
    // Each waits for what the other one does later, and for a rank that ends early.
    const auto rank = [](std::uint32_t own, std::uint32_t other) {
        RankSegments segments{{0, 0, 0}, {}, {1, 2, 4}, {0, 0, 0}, {{0, 1}, {nowhere, nowhere}}};
        segments.meetings = {packed({false, true, other, 5}), packed({true, false, own, 5}), 0};
        segments.places.first_turns[own] = 0;
        return segments;
    };
    const RankPaths paths(std::vector{rank(0, 1), rank(1, 0)}, std::vector<std::uint32_t>{0});
    CHECK(paths.longest(0, 0).front() == RankPaths::Point{7, 0});
}

TEST_CASE("ranks of whose runs any part is missing all come to their end") {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        Drawn drawn(seed);
        drawn.cut();
        double lines = 0, most = 0;
        for (const auto& parts : drawn.ranks) {
            double of_rank = 0;
            for (const Part& part : parts) of_rank += part.lines;
            lines += of_rank;
            most = std::max(most, of_rank);
        }
        std::size_t last = 0;
        for (const auto& of_rank : order_in_job(drawn))
            for (const Moments& its : of_rank) last = std::max(last, its.last);
        CHECK(double(last) == lines);
        const double longest = paths_of(drawn).longest(0, 0).back().second;
        CHECK(longest >= most);
        CHECK(longest <= lines);
    }
}

TEST_CASE("a process whose trace begins late begins when the others have met so often") {
    const auto process = [](std::vector<Op> ops, std::uint32_t first_round) {
        const std::vector pages{VirtualPage(0), VirtualPage(1)};
        Process found{
            std::make_shared<reference::ListedProgram>(ops, pages, 1, 1, 1), {0}, {0}, {}};
        found.first_round = first_round;
        return found;
    };
    const Op fetch = make_op(OpKind::fetch, 0, 1);
    const Op meet = make_op(OpKind::meet, 0, packed_of_all(2, 5));
    const auto job =
        job_of({process({fetch, fetch, meet, fetch, fetch}, 0), process({fetch}, 1)}, 1, 1, 2);
    std::vector<unsigned> threads;
    for_each_op(*job, [&](const Op& op) { threads.push_back(op.thread); });
    CHECK(threads == std::vector<unsigned>{0, 0, 0, 1, 0});
}

TEST_CASE("where nobody could go on, senders go before all others that wait") {
    // Two send each other something before they receive it, which a library may allow. The first
    // then does what a third one waits for.
    const auto pair = [](std::uint32_t own, std::uint32_t other) {
        RankSegments segments{{0, 0, 0, 0}, {}, {1, 2, 4, 8}, {0, 0, 0, 0}, {{0, 1, 2}, {0, 0, 0}}};
        segments.meetings = {packed({true, true, own, 0, true}), packed({true, true, other, 0}),
                             packed({own == 0, false, 2, 0}), 0};
        if (own != 0) segments.places.first_turns[2] = nowhere;
        return segments;
    };
    const RankSegments third{{0, 0},
                             {packed({true, true, 2, 0}), 0},
                             {0, 20},
                             {0, 0},
                             {{0, 1, 2}, {nowhere, nowhere, 0}}};
    const RankPaths paths(std::vector{pair(0, 1), pair(1, 0), third},
                          std::vector<std::uint32_t>{0});
    CHECK(paths.longest(0, 0).front() == RankPaths::Point{27, 0});
    CHECK(paths.waits(0, 1, 0) == std::vector<double>{0, 0, 12, 0, 0, 12, 7, 0, 0});
}

TEST_CASE("what was sent before the trace began is waited for by nobody") {
    const RankSegments sender{{0, 0}, {packed({true, false, 0, 7}), 0}, {9, 0}, {0, 0}, {{0}, {7}}};
    RankSegments receiver{{0, 0}, {0, 0}, {1, 1}, {0, 0}, {{0}, {nowhere}}};
    const auto waits = [&](std::uint32_t turn) {
        receiver.meetings[0] = packed({false, true, 0, turn});
        const RankPaths paths(std::vector{sender, receiver}, std::vector<std::uint32_t>{0});
        return paths.waits(0, 1, 0);
    };
    CHECK(waits(6) == std::vector<double>{0, 0, 7, 0});  // at the end, for the sender
    CHECK(waits(7) == std::vector<double>{0, 1, 8, 0});  // for the message
}
