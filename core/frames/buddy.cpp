#include "core/frames/buddy.hpp"

#include <bit>
#include <cassert>
#include <stdexcept>
#include <string>

namespace pagelens {

Buddy::Buddy(std::uint32_t frames, std::uint32_t grain)
    : grain_order_(static_cast<unsigned>(std::countr_zero(grain))) {
    if (!std::has_single_bit(grain) || grain > (1u << max_order)) {
        throw std::invalid_argument("grain: " + std::to_string(grain) +
                                    " is not a power of two from 1 to 1024");
    }
    if (frames == 0 || frames % grain != 0) {
        throw std::invalid_argument("frames: " + std::to_string(frames) +
                                    " is not a positive multiple of the grain " +
                                    std::to_string(grain));
    }
    const std::uint32_t count = frames >> grain_order_;
    links_.resize(count);
    order_.assign(count, taken);
    head_.fill(none);
    tail_.fill(none);
    for (std::uint32_t unit = 0; unit < count;) {
        unsigned level = levels() - 1;
        while (unit % (1u << level) != 0 || count - unit < (1u << level)) --level;
        push_tail(level, unit);
        unit += 1u << level;
    }
    free_units_ = count;
}

std::optional<Frame> Buddy::alloc(unsigned order) {
    assert(order <= max_order);
    const unsigned wanted = level_of(order);
    unsigned level = wanted;
    while (level < levels() && head_[level] == none) ++level;
    if (level == levels()) return std::nullopt;
    const std::uint32_t unit = head_[level];
    unlink(unit);
    while (level > wanted) {
        --level;
        push_head(level, unit + (1u << level));
    }
    free_units_ -= 1u << wanted;
    return Frame(unit << grain_order_);
}

void Buddy::free(Frame frame, unsigned order) {
    std::uint32_t unit = frame.raw() >> grain_order_;
    unsigned level = level_of(order);
    assert(unit < units() && order_[unit] == taken && unit % (1u << level) == 0);
    free_units_ += 1u << level;
    while (level + 1 < levels()) {
        const std::uint32_t buddy = unit ^ (1u << level);
        if (buddy >= units() || order_[buddy] != static_cast<std::int8_t>(level)) break;
        unlink(buddy);
        unit &= ~(1u << level);
        ++level;
    }
    push_head(level, unit);
}

void Buddy::sort() {
    head_.fill(none);
    tail_.fill(none);
    for (std::uint32_t unit = 0; unit < units(); ++unit) {
        if (order_[unit] != taken) push_tail(static_cast<unsigned>(order_[unit]), unit);
    }
}

void Buddy::reserve(Frame begin, Frame end) {
    assert(begin.raw() % (1u << max_order) == 0 && end.raw() % (1u << max_order) == 0);
    for (std::uint32_t unit = begin.raw() >> grain_order_; unit < end.raw() >> grain_order_;
         ++unit) {
        if (order_[unit] == taken) continue;
        free_units_ -= 1u << order_[unit];
        unlink(unit);
    }
}

std::vector<Frame> Buddy::free_list(unsigned order) const {
    std::vector<Frame> list;
    if (order < grain_order_ || order > max_order) return list;
    for (std::uint32_t unit = head_[order - grain_order_]; unit != none; unit = links_[unit].next) {
        list.emplace_back(unit << grain_order_);
    }
    return list;
}

void Buddy::push_head(unsigned level, std::uint32_t unit) {
    order_[unit] = static_cast<std::int8_t>(level);
    links_[unit] = {head_[level], none};
    (head_[level] == none ? tail_[level] : links_[head_[level]].previous) = unit;
    head_[level] = unit;
}

void Buddy::push_tail(unsigned level, std::uint32_t unit) {
    order_[unit] = static_cast<std::int8_t>(level);
    links_[unit] = {none, tail_[level]};
    (tail_[level] == none ? head_[level] : links_[tail_[level]].next) = unit;
    tail_[level] = unit;
}

void Buddy::unlink(std::uint32_t unit) {
    const auto level = static_cast<unsigned>(order_[unit]);
    const Link link = links_[unit];
    (link.previous == none ? head_[level] : links_[link.previous].next) = link.next;
    (link.next == none ? tail_[level] : links_[link.next].previous) = link.previous;
    order_[unit] = taken;
}

}  // namespace pagelens
