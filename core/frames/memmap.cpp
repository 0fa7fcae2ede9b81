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
    for (std::uint32_t head = count; head < count + lists; ++head) link(head) = {head, head};
}

std::vector<Unit> Memmap::elements(List list) const {
    std::vector<Unit> found;
    for (Unit unit = first(list); !ends(unit); unit = next(unit)) found.push_back(unit);
    return found;
}

void Memmap::reorder(List list, const std::vector<Unit>& order) {
    link(head_of(list)) = {head_of(list), head_of(list)};
    for (const Unit unit : order) push_tail(list, unit);
}

Unit Memmap::free_block_at(Unit unit) const {
    for (unsigned level = 0; level < levels(); ++level) {
        const Unit first_unit = unit & ~((1u << level) - 1);
        if (is_free(first_unit) && free_level(first_unit) >= level) return first_unit;
    }
    return no_unit;
}

}  // namespace pagelens
