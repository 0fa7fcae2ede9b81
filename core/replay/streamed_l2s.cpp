#include "core/replay/streamed_l2s.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace pagelens {
namespace {

unsigned count(std::uint64_t bits) { return static_cast<unsigned>(std::popcount(bits)); }

}  // namespace

std::unique_ptr<StreamedL2s> StreamedL2s::of(const SweepBlocks* blocks, const Hierarchy& hierarchy,
                                             const ReplayOptions& options, unsigned threads) {
    if (blocks == nullptr || !blocks->whole_walks() || hierarchy.l2_sets == 0 || options.ranks != 1)
        return nullptr;
    // From a page's fetch to its write-back, each other way of the cache's cores uses as many pages
    // as it has steps, and one more. All of these must find room beside the page.
    const WholeWalks& walks = *blocks->whole_walks();
    const std::uint64_t others = hierarchy.l2_shared_by * walks.most_streams() - 1;
    if ((walks.most_turns_a_page() + 1) * others >= hierarchy.l2_ways ||
        walks.fewest_turns() <= walks.most_turns_a_page() + SweepBlocks::block_turns)
        return nullptr;
    return std::unique_ptr<StreamedL2s>(
        new StreamedL2s(walks, hierarchy, options.sampling, threads));
}

StreamedL2s::StreamedL2s(const WholeWalks& walks, const Hierarchy& hierarchy,
                         const Sampling& sampling, unsigned threads)
    : sets_(hierarchy.l2_sets / lines_per_page),
      ways_(hierarchy.l2_ways),
      shared_by_(hierarchy.l2_shared_by),
      most_ways_(hierarchy.l2_shared_by * walks.most_streams()),
      apart_(walks.fewest_turns() - walks.most_turns_a_page() - 1),
      sampling_(sampling),
      arrivals_(std::size_t{sets_} * most_ways_),
      came_(std::size_t{sets_} * ((threads + shared_by_ - 1) / shared_by_)),
      waiting_((threads + shared_by_ - 1) / shared_by_) {}

bool StreamedL2s::take(const SweepBlocks& blocks, const PageSet& wanted, const RankPages& pages) {
    by_way_.clear();
    turn_of_.clear();
    const std::span<const Way> ways = blocks.ways();
    for (std::size_t begin = 0, end = 0; begin < ways.size(); begin = end) {
        const unsigned cache = ways[begin].thread / shared_by_;
        while (end < ways.size() && ways[end].thread / shared_by_ == cache) ++end;
        if (!take_cache(blocks, ways.subspan(begin, end - begin), cache, wanted, pages))
            return false;
    }
    turns_ += blocks.turns();
    put_in_order();
    return true;
}

bool StreamedL2s::take_cache(const SweepBlocks& blocks, std::span<const Way> ways,
                             std::uint32_t cache, const PageSet& wanted, const RankPages& pages) {
    note_arrivals(blocks, ways, pages);
    if (!enough_came(cache, turns_ + blocks.turns()) ||
        !find_leaving(blocks, ways, cache, wanted, pages))
        return false;
    for (unsigned number = 0; number < ways.size(); ++number) {
        const Way& way = ways[number];
        const What moves = way.kind == OpKind::fetch ? What::fetch : What::stream_store;
        SweepBlocks::for_wanted(
            wanted, way, SweepBlocks::written_back(way), [&](std::uint64_t at, std::uint32_t page) {
                put(blocks.turn_within(way, at + 1), {page, way.object, What::write_back});
            });
        SweepBlocks::for_wanted(wanted, way, SweepBlocks::visited(way),
                                [&](std::uint64_t at, std::uint32_t page) {
                                    const std::uint64_t turn = blocks.turn_within(way, at);
                                    if (blocks.maps_pages())
                                        put(turn, {page, way.object, What::map});
                                    put(turn, {page, way.object, moves});
                                });
        for (const Leaving& leaving : leaving_) {
            if (leaving.place.way == number)
                put(leaving.place.turn, {leaving.dirty.page, leaving.dirty.object, What::leave});
        }
    }
    return true;
}

// Notes for each set in which turns a page comes, by way.
void StreamedL2s::note_arrivals(const SweepBlocks& blocks, std::span<const Way> ways,
                                const RankPages& pages) {
    std::ranges::fill(arrivals_, 0);
    for (std::size_t number = 0; number < ways.size(); ++number) {
        const Way& way = ways[number];
        if (way.kind != OpKind::fetch) continue;
        std::uint64_t* const of_way = &arrivals_[number];
        blocks.for_turns(way, SweepBlocks::visited(way), 0,
                         [&](std::uint64_t turn, std::uint64_t at) {
                             const std::uint32_t frame =
                                 pages.frame(static_cast<std::uint32_t>(way.first + at), 0);
                             of_way[set_of(frame) * most_ways_] |= 1ull << turn;
                         });
    }
}

// Whether so many pages of each set came since any page was used last in the sweep before that it
// has left. Precondition: the block's arrivals are known.
bool StreamedL2s::enough_came(std::uint32_t cache, std::uint64_t end_turn) {
    for (std::uint32_t set = 0; set < sets_; ++set) {
        if (sampling_.lines(set) == 0) continue;
        Arrivals& came = came_[std::size_t{cache} * sets_ + set];
        if (came.any && end_turn - came.since > apart_) return false;
        const unsigned now =
            arrivals(static_cast<std::uint16_t>(set), {0, 0}, SweepBlocks::block_turns);
        came.any |= now != 0;
        came.count += now;
        if (came.count < ways_) continue;
        came = {.since = came.before, .before = end_turn, .count = 0, .any = true};
    }
    return true;
}

// Finds which dirty pages leave the cache in the block.
bool StreamedL2s::find_leaving(const SweepBlocks& blocks, std::span<const Way> ways,
                               std::uint32_t cache, const PageSet& wanted, const RankPages& pages) {
    leaving_.clear();
    still_waiting_.clear();
    bool is_known = true;
    for (const Dirty& dirty : waiting_[cache])
        is_known &= wait_or_leave(dirty, {0, 0}, still_waiting_);
    for (unsigned number = 0; number < ways.size(); ++number) {
        const Way& way = ways[number];
        SweepBlocks::for_wanted(
            wanted, way, SweepBlocks::written_back(way), [&](std::uint64_t at, std::uint32_t page) {
                if (!sampling_.covers(pages.frame(page, 0))) return;
                const Place place{static_cast<unsigned>(blocks.turn_within(way, at + 1)), number};
                is_known &= wait_or_leave(written_back(blocks, ways, place, page, pages), place,
                                          still_waiting_);
            });
    }
    std::swap(waiting_[cache], still_waiting_);
    return is_known;
}

// A page that is written back at a place. Pages that were fetched before, and are written back
// after it, are used later than it, although they do not arrive.
StreamedL2s::Dirty StreamedL2s::written_back(const SweepBlocks& blocks, std::span<const Way> ways,
                                             Place place, std::uint32_t page,
                                             const RankPages& pages) const {
    Dirty dirty{page, ways[place.way].object, set_of(pages.frame(page, 0)), ways_, 0};
    for (unsigned number = 0; number < ways.size(); ++number) {
        const Way& way = ways[number];
        if (number == place.way || !way.is_written) continue;
        const std::uint64_t at =
            blocks.page_at(way, std::uint64_t{place.turn} - (number > place.way ? 1 : 0));
        if (at >= way.pages) continue;  // its end
        if (set_of(pages.frame(static_cast<std::uint32_t>(way.first + at), 0)) != dirty.set)
            continue;
        --dirty.arrivals;
        dirty.known_from = std::max(dirty.known_from, turns_ + blocks.turn_within(way, at + 1) + 1);
    }
    return dirty;
}

// Finds where the page leaves, or has it wait. Returns false where that is not known.
bool StreamedL2s::wait_or_leave(Dirty dirty, Place from, std::vector<Dirty>& waiting) {
    const unsigned in_block = arrivals(dirty.set, from, SweepBlocks::block_turns);
    if (in_block < dirty.arrivals) {
        dirty.arrivals -= in_block;
        waiting.push_back(dirty);
        return true;
    }
    const Place place = place_of(dirty.set, from, dirty.arrivals);
    leaving_.push_back({dirty, place});
    return turns_ + place.turn >= dirty.known_from;
}

// Returns where the `number`th page of a set comes, from a place on. Precondition: it does.
StreamedL2s::Place StreamedL2s::place_of(std::uint16_t set, Place from, unsigned number) const {
    unsigned turn = 0;  // as many turns as do not suffice
    for (unsigned step = SweepBlocks::block_turns / 2; step != 0; step /= 2)
        if (arrivals(set, from, turn + step) < number) turn += step;
    unsigned rest = number - arrivals(set, from, turn);
    for (unsigned way = 0;; ++way)
        if ((arrivals(set, way, from) >> turn & 1) != 0 && --rest == 0) return {turn, way};
}

// Returns how many pages of a set come from a place on, before a turn.
unsigned StreamedL2s::arrivals(std::uint16_t set, Place from, unsigned end_turn) const {
    unsigned sum = 0;
    for (unsigned way = 0; way < most_ways_; ++way)
        sum += count(arrivals(set, way, from) & ~turns_from(end_turn));
    return sum;
}

void StreamedL2s::put(std::uint64_t turn, const Event& event) {
    by_way_.push_back(event);
    turn_of_.push_back(static_cast<std::uint8_t>(turn));
}

// Puts the block's events in the order of turns, and within a turn leaves them as they are.
void StreamedL2s::put_in_order() {
    std::array<std::uint32_t, SweepBlocks::block_turns + 1> places{};
    for (const std::uint8_t turn : turn_of_) ++places[turn + 1u];
    for (std::size_t turn = 0; turn < SweepBlocks::block_turns; ++turn)
        places[turn + 1] += places[turn];
    by_turn_.resize(by_way_.size());
    for (std::size_t i = 0; i < by_way_.size(); ++i) by_turn_[places[turn_of_[i]]++] = by_way_[i];
}

}  // namespace pagelens
