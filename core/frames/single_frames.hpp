// Single frames out of a node of any grain: each CPU opens a unit and uses it up, ascending, before
// it opens another, and a unit goes back, to merge, when all its frames are free. At grain 1 there
// is nothing to open.
#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/frames/node_state.hpp"

namespace pagelens {

class SingleFrames {
  public:
    static constexpr std::uint32_t largest_grain = 16;

    explicit SingleFrames(NodeState node)
        : node_(std::move(node)),
          shift_(node_.memory().map().grain_order()),
          opened_(node_.memory().cpus()) {
        if (node_.memory().grain() > largest_grain) {
            throw std::invalid_argument("grain: " + std::to_string(node_.memory().grain()) +
                                        " is more than a placement takes (16)");
        }
        if (shift_ > 0) free_.resize(node_.memory().map().units());
    }

    [[nodiscard]] NodeState& node() { return node_; }

    std::optional<Frame> take(const Request& request) {
        if (shift_ == 0) return node_.alloc(request);
        auto& own = opened_[request.cpu];
        if (const auto frame = take_opened(own)) return frame;
        if (const auto unit = node_.alloc(request)) {
            free_[unit->raw() >> shift_] = all_free();
            own.push_back(unit->raw() >> shift_);
            return take_opened(own);
        }
        for (auto& others : opened_) {  // the last resort before memory is full
            if (const auto frame = take_opened(others)) return frame;
        }
        return std::nullopt;
    }

    void put(unsigned cpu, Frame frame) {
        if (shift_ == 0) return node_.free(cpu, frame, small_order);
        const std::uint32_t unit = frame.raw() >> shift_;
        std::uint16_t& rest = free_[unit];
        if (rest == 0) opened_[cpu].push_back(unit);
        rest = static_cast<std::uint16_t>(rest | 1u << (frame.raw() & ((1u << shift_) - 1)));
        if (rest != all_free()) return;
        rest = 0;  // its entry in opened_ is skipped when it comes up
        node_.free(cpu, Frame(unit << shift_), small_order);
    }

  private:
    std::optional<Frame> take_opened(std::vector<std::uint32_t>& units) {
        for (; !units.empty(); units.pop_back()) {
            const std::uint32_t unit = units.back();
            std::uint16_t& rest = free_[unit];
            if (rest == 0) continue;
            const auto index = static_cast<unsigned>(std::countr_zero(rest));
            rest = static_cast<std::uint16_t>(rest & (rest - 1));
            return Frame((unit << shift_) + index);
        }
        return std::nullopt;
    }
    [[nodiscard]] std::uint16_t all_free() const {
        return static_cast<std::uint16_t>((1u << (1u << shift_)) - 1);
    }

    NodeState node_;
    unsigned shift_;                                  // log2 of frames in a unit
    std::vector<std::uint16_t> free_;                 // [unit] frames of it that are free
    std::vector<std::vector<std::uint32_t>> opened_;  // [cpu] units, last used on top; may be stale
};

}  // namespace pagelens
