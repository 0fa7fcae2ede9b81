// Which lines of a long run are simulated: systematic sampling in time. The lines that a phase
// moves are counted, and at equal distances a stretch of them goes through the machine, its first
// part to warm the caches up. (As in Wunderlich, Wenisch, Falsafi, Hoe: SMARTS, ISCA 2003, but
// without the functional warming between: what a stretch finds in the caches is what the one before
// left. So the stretches of phases that move the same lines must not begin at the same of them, and
// a phase first fills the caches with its own.)
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// Lines of all ranks. Everything: `period` 0.
struct Excerpt {
    std::uint64_t period = 0;   // from the beginning of a stretch to that of the next
    std::uint64_t stretch = 0;  // at most period
    std::uint64_t warm_up = 0;  // of the stretch, not counted; less than it
    std::uint64_t begin = 0;    // of the first stretch after `fill`; at most period - stretch
    std::uint64_t fill = 0;     // at the beginning of the phase, not counted

    enum class Part : std::uint8_t { skipped, warm_up, counted };
    // Where the line lies that a phase moves after `lines` others.
    [[nodiscard]] Part part(std::uint64_t lines) const {
        if (period == 0) return Part::counted;
        if (lines < fill) return Part::warm_up;
        const std::uint64_t at = (lines - fill + period - begin) % period;
        return at >= stretch ? Part::skipped : at < warm_up ? Part::warm_up : Part::counted;
    }
};

// The program without the lines that `ranks` copies of it skip: replays of it with the same
// excerpts count the same. Throws std::invalid_argument unless there is an excerpt for each phase,
// with warm_up < stretch <= period and begin <= period - stretch where the period is not 0.
std::unique_ptr<Program> excerpted(const Program& program, std::uint32_t ranks,
                                   const std::vector<Excerpt>& excerpts);
void check(const Program& program, const std::vector<Excerpt>& excerpts);

// Lines that an op of one copy moves at most: page clearing and pages that are only read included.
inline std::uint64_t most_lines(const Op& op) {
    switch (op.kind()) {
        case OpKind::fetch:
        case OpKind::write_back:
        case OpKind::stream_store:
            return static_cast<unsigned>(std::popcount(op.lines));
        case OpKind::map_write:
            return lines_per_page;
        case OpKind::skip:
            return op.lines;
        case OpKind::phase:
        case OpKind::touch:
        case OpKind::map_read:
        case OpKind::unmap:
            return 0;
    }
    return 0;
}

// [phase] the lines that one copy of a program moves, page clearing and pages that are only read
// included: a bound, not a count.
std::vector<std::uint64_t> lines_by_phase(const Program& program);

}  // namespace pagelens
