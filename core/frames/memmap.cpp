#include "core/frames/memmap.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace pagelens {

Memmap::Memmap(std::uint32_t frames, std::uint32_t grain, std::uint32_t lists)
    : grain_order_(static_cast<unsigned>(std::countr_zero(grain))),
      has_parts_(grain > 1 ? 1 : 0),
      whole_(~Parts{0} >> (64 - std::clamp(grain, 1u, largest_grain))) {
    if (!std::has_single_bit(grain) || grain > largest_grain) {
        throw std::invalid_argument("grain: " + std::to_string(grain) +
                                    " is not a power of two from 1 to 64");
    }
    if (frames == 0 || frames % grain != 0) {
        throw std::invalid_argument("frames: " + std::to_string(frames) +
                                    " is not a positive multiple of the grain " +
                                    std::to_string(grain));
    }
    const std::uint32_t count = frames >> grain_order_;
    state_.assign(count, hole);
    if (grain > 1) movable_.resize(count);
    types_.assign((count >> pageblock_level()) + 1, MigrateType::movable);
    links_.resize(std::size_t{count + lists} << has_parts_);
    piles_.resize(lists);
    for (std::uint32_t head = count; head < count + lists; ++head) link(head) = {head, head};
}

void Memmap::unlink_shared(Unit unit) {
    const auto [index, list_and_end] = link(unit);
    Pile& pile = piles_[list_and_end >> 1];
    auto& [head, tail, tail_begin, gaps] = pile;
    const bool in_tail = (list_and_end & 1) != 0;
    (in_tail ? tail : head)[index] = Pile::gap;
    ++gaps;
    for (; !head.empty() && head.back() == Pile::gap; --gaps) head.pop_back();
    while (tail_begin < tail.size() && tail[tail_begin] == Pile::gap) ++tail_begin;
    if (2 * gaps > head.size() + tail.size()) {
        reorder(list_and_end >> 1, elements(list_and_end >> 1));
    }
}

std::vector<Unit> Memmap::elements(List list) const {
    const Pile& pile = piles_[list];
    std::vector<Unit> found(pile.head.rbegin(), pile.head.rend());
    found.insert(found.end(), pile.tail.begin(), pile.tail.end());
    std::erase(found, Pile::gap);
    for (Unit unit = first(list); !ends(unit); unit = next(unit)) found.push_back(unit);
    return found;
}

void Memmap::reorder(List list, const std::vector<Unit>& order) {
    link(head_of(list)) = {head_of(list), head_of(list)};
    piles_[list] = {};
    for (auto unit = order.rbegin(); unit != order.rend(); ++unit) {
        is_shared(*unit) ? push_shared_head(list, *unit) : push_head(list, *unit);
    }
}

Unit Memmap::free_block_at(Unit unit) const {
    for (unsigned level = 0; level < levels(); ++level) {
        const Unit first_unit = unit & ~((1u << level) - 1);
        if (is_free(first_unit) && free_level(first_unit) >= level) return first_unit;
    }
    return no_unit;
}

std::optional<unsigned> Memmap::free_order_at(Frame frame) const {
    const Unit unit = unit_of(frame);
    const std::uint32_t place = frame.raw() & (grain() - 1);
    if (is_free(unit)) {
        return place == 0 ? std::optional(free_level(unit) + grain_order_) : std::nullopt;
    }
    const Parts free = free_parts(unit);
    const auto is_whole = [free](std::uint32_t first, unsigned order) {
        const Parts block = ((Parts{1} << (1u << order)) - 1) << first;
        return (free & block) == block;
    };
    if (!is_whole(place, 0)) return std::nullopt;
    for (unsigned order = 0;; ++order) {  // ends, as not all of the unit is free
        const std::uint32_t buddy = place ^ (1u << order);
        if (!is_whole(buddy, order)) return order;
        if (buddy < place) return std::nullopt;  // it begins there
    }
}

}  // namespace pagelens
