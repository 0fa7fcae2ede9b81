// Which lines of a sample of instructions a prefetcher asks for early: those that follow a stream
// of lines, or the step that their instruction keeps.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <unordered_map>
#include <vector>

namespace pagelens {

// A core's prefetchers follow so many streams. Lines up to `near` lines from the last one of a
// stream belong to it, and `stride` is the longest step of an instruction, in lines.
struct Prefetchers {
    std::size_t streams;
    std::int64_t near, stride;
};

// What an access does; an access may do several of these.
namespace stream_use {
inline constexpr std::uint8_t follows = 1;  // a stream, or its instruction's step
inline constexpr std::uint8_t moves = 2;    // that stream goes on, or the step is kept
inline constexpr std::uint8_t full = 4;     // it finds as many streams as can be followed
inline constexpr std::uint8_t repeats = 8;  // a stream has come to its line already
}  // namespace stream_use

// Returns what each access does, in this order. `places` are numbers of their instructions.
inline std::vector<std::uint8_t> stream_uses(std::span<const std::uint64_t> lines,
                                             std::span<const std::uint64_t> places,
                                             const Prefetchers& prefetchers) {
    struct Followed {
        std::int64_t line;  // where it has come to
        bool moved;
    };
    struct Last {
        std::int64_t line, step;  // the step to that line
    };
    std::vector<Followed> streams;  // the latest last
    std::unordered_map<std::uint64_t, Last> last;
    std::vector<std::uint8_t> result(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto line = static_cast<std::int64_t>(lines[i]);
        Last& its = last.try_emplace(places[i], Last{line, 0}).first->second;
        const std::int64_t step = line - its.line;
        const bool strides = its.step == step && step != 0 && std::abs(step) <= prefetchers.stride;
        its = {line, step};
        // The nearest; of two that are equally near, the one before the line.
        auto nearest = streams.end();
        std::int64_t distance = prefetchers.near + 1;
        for (auto at = streams.begin(); at != streams.end(); ++at) {
            const std::int64_t away = std::abs(at->line - line);
            if (away < distance ||
                (away == distance && nearest != streams.end() && at->line < line))
                nearest = at, distance = away;
        }
        std::uint8_t uses = streams.size() == prefetchers.streams ? stream_use::full : 0;
        const bool is_near = nearest != streams.end();
        const bool moved = is_near && (nearest->moved || distance != 0);
        if (is_near && distance == 0) uses |= stream_use::repeats;
        if (is_near)
            streams.erase(nearest);
        else if (streams.size() == prefetchers.streams)
            streams.erase(streams.begin());
        streams.push_back({line, moved});
        if (is_near || strides) uses |= stream_use::follows;
        if (moved || strides) uses |= stream_use::moves;
        result[i] = uses;
    }
    return result;
}

}  // namespace pagelens
