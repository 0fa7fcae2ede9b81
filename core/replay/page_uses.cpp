#include "core/replay/page_uses.hpp"

#include <utility>

namespace pagelens {

PageUses::PageUses(std::uint32_t pages, const WholeWalks* walks)
    : uses_(walks == nullptr ? pages : 0), cleared_(walks == nullptr ? pages : 0), walks_(walks) {
    if (walks_ == nullptr) return;
    entries_.resize(1u << 17);
    shift_ = 64 - 17;
}

void PageUses::pass(const SweepBlocks& block) {
    if (walks_ == nullptr) {
        block.for_all(
            [&](std::uint32_t moment, OpKind kind, std::uint32_t page, std::uint64_t lines) {
                const std::uint32_t then = clock_ + 1 + moment;
                if (kind == OpKind::map_write) return cleared_at(page, then);
                Times& times = uses_[page];
                times.used = std::max(times.used, then);
                times.written = std::max(times.written, kind != OpKind::fetch ? then : 0);
                times.lines |= lines;
            });
    } else {
        const std::uint64_t of_turn = block.moments() / SweepBlocks::block_turns;
        const std::uint64_t begin = block.first_turn(), end = begin + block.turns();
        if (!passed_.empty() && begin != 0 && passed_.back().end == begin &&
            passed_.back().before + (begin - passed_.back().begin) * of_turn == clock_)
            passed_.back().end = end;
        else
            passed_.push_back({block.sweep(), block.maps_pages() && block.is_first_round(), begin,
                               end, clock_, of_turn});
        ++passed_blocks_;
    }
    clock_ += static_cast<std::uint32_t>(block.moments());
}

const PageUses::Use& PageUses::up_to_date(std::uint32_t page) {
    Entry& known = entry(page);
    if (known.blocks == passed_blocks_) return known.use;
    known.blocks = passed_blocks_;
    const WholeWalks::Place place = walks_->place_of(page);
    Use& use = known.use;
    std::optional<WholeWalks::Visit> visit;
    std::size_t sweep = ~std::size_t{0};
    for (const Passed& passed : passed_) {
        if (passed.sweep != sweep) visit = walks_->visit(sweep = passed.sweep, place);
        if (!visit) continue;
        const auto moment = [&](std::uint64_t turn, unsigned what) {
            return passed.before + 1 +
                   static_cast<std::uint32_t>((turn - passed.begin) * passed.of_turn +
                                              3 * visit->way + what);
        };
        const auto add_use = [&](std::uint32_t then, bool write) {
            use.used = std::max(use.used, then);
            if (write) use.written = std::max(use.written, then);
            use.lines = ~0ull;
        };
        if (visit->writes_back && visit->left >= passed.begin && visit->left < passed.end)
            add_use(moment(visit->left, 0), true);
        if (visit->turn < passed.begin || visit->turn >= passed.end) continue;
        if (passed.maps && walks_->maps(passed.sweep, place.array))
            use.cleared = moment(visit->turn, 1);
        add_use(moment(visit->turn, 2), visit->stores);
    }
    return use;
}

std::size_t PageUses::place_of(std::uint32_t page) const {
    const std::size_t last = entries_.size() - 1;
    std::size_t place = first_place_of(page);
    while (entries_[place].page_and_1 != 0 && entries_[place].page_and_1 != page + 1)
        place = (place + 1) & last;
    return place;
}

PageUses::Entry& PageUses::entry(std::uint32_t page) {
    if (Entry& found = entries_[place_of(page)]; found.page_and_1 != 0) return found;
    if (2 * ++entries_used_ > entries_.size()) {
        const auto old = std::exchange(entries_, HugeVector<Entry>(2 * entries_.size()));
        --shift_;
        for (const Entry& each : old)
            if (each.page_and_1 != 0) entries_[place_of(each.page_and_1 - 1)] = each;
    }
    Entry& fresh = entries_[place_of(page)];
    fresh.page_and_1 = page + 1;
    return fresh;
}

}  // namespace pagelens
