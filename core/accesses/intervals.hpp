// Intervals of numbers with a value each; a later assignment wins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace pagelens {

// A value for each number, kept by intervals. Numbers that nothing was assigned to have `Value()`.
template <class Value>
class Intervals {
  public:
    void assign(std::uint64_t begin, std::uint64_t end, const Value& value) {
        if (begin >= end) return;
        split(begin);
        split(end);
        pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
        if (!(value == Value())) pieces_.emplace(begin, Piece{end, value});
    }

    // The value of `number`, and whether all of [begin, end) around it has the same one.
    struct Found {
        Value value;
        bool whole;
    };
    [[nodiscard]] Found find(std::uint64_t number, std::uint64_t begin, std::uint64_t end) const {
        const auto next = pieces_.upper_bound(number);
        if (next != pieces_.begin()) {
            const auto piece = std::prev(next);
            if (piece->second.end > number)
                return {piece->second.value, piece->first <= begin && piece->second.end >= end};
        }
        const bool before = next != pieces_.begin() && std::prev(next)->second.end > begin;
        return {Value(), !before && (next == pieces_.end() || next->first >= end)};
    }
    [[nodiscard]] Value at(std::uint64_t number) const {
        return find(number, number, number + 1).value;
    }

    // Calls visit(begin, end, value) for the parts of [begin, end) that have a value, in their
    // order.
    template <class Visit>
    void for_each(std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
        auto next = pieces_.lower_bound(begin);
        if (next != pieces_.begin() && std::prev(next)->second.end > begin) --next;
        for (; next != pieces_.end() && next->first < end; ++next)
            visit(std::max(begin, next->first), std::min(end, next->second.end),
                  next->second.value);
    }

  private:
    struct Piece {
        std::uint64_t end;
        Value value;
    };

    void split(std::uint64_t at) {
        const auto next = pieces_.lower_bound(at);
        if (next == pieces_.begin()) return;
        const auto piece = std::prev(next);
        if (piece->second.end <= at) return;
        pieces_.emplace(at, piece->second);
        piece->second.end = at;
    }

    std::map<std::uint64_t, Piece> pieces_;  // by first number
};

}  // namespace pagelens
