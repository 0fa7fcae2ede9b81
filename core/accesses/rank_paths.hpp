// The time of ranks that wait for some of the others: the longest path through their segments.
//
// A segment is what a rank does up to a meeting. It takes a x its instructions + b x its lines. A
// path goes on from a segment to the next one of the rank, or to the one of a rank that waited.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/meeting_places.hpp"

namespace pagelens {

// The segments of a rank in their order.
struct RankSegments {
    std::vector<std::uint32_t> rounds;        // between two meetings of all ranks; ascending
    std::vector<std::uint64_t> meetings;      // what ends each; what is no packed Meeting
                                              // orders nothing here
    std::vector<double> instructions, lines;  // in any unit
    KnownPlaces places;
    // The rounds in which it is known whether the rank waits. In others its trace has not begun, or
    // has ended early.
    std::uint32_t known_from = 0, known_to = ~0u;
};

class RankPaths {
  public:
    using Point = std::pair<double, double>;  // instructions and lines of a path

    // All ranks meet at the end of each round. Rounds of phase `left_out` are not followed.
    // Throws std::invalid_argument for lists of different lengths, and for a round without a phase.
    RankPaths(std::span<const RankSegments> ranks, std::span<const std::uint32_t> phases);

    static constexpr std::uint32_t left_out = ~0u;

    // The paths through a phase, one of which is the longest for any a and b that are not negative,
    // but for this relative tolerance.
    [[nodiscard]] std::vector<Point> longest(std::uint32_t phase, double tolerance) const;

    // How long each rank waits for each other one in a phase: [rank x ranks + the other].
    [[nodiscard]] std::vector<double> waits(std::uint32_t phase, double a, double b) const;

  private:
    class Builder;
    enum class StepKind : std::uint8_t { work, come, wait, is_unknown, end_round };
    struct Step {
        StepKind kind;
        std::uint32_t rank;
        std::uint32_t coming = 0;  // of `come` and `wait`
        double instructions = 0, lines = 0;
    };
    struct Path {
        double time = 0, instructions = 0, lines = 0;
        std::uint32_t rank = 0;  // where it ends
    };
    template <class Wait>
    Path follow(std::uint32_t phase, double a, double b, std::vector<Path>& comings,
                const Wait& wait) const;
    void refine(std::uint32_t phase, double tolerance, const Point& from, const Point& to,
                std::vector<Path>& comings, std::vector<Point>& found) const;

    std::uint32_t ranks_ = 0, comings_ = 0;
    std::vector<std::vector<Step>> steps_;  // [phase] in an order in which they can happen
};

}  // namespace pagelens
