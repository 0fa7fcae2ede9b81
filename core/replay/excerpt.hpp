// Which lines of a long run are simulated: systematic sampling in time. The lines that a phase
// moves are counted (but not those of pages that the kernel clears: they differ between placements,
// and every placement is to have the same stretches), and at equal distances a stretch of them goes
// through the machine, its first part to warm the caches up (as in Wunderlich, Wenisch, Falsafi,
// Hoe: SMARTS, ISCA 2003). Instead of all lines between, only those that were used last are
// recalled before a stretch, in the order of their last use: caches with LRU hold these. Where a
// stretch goes on after other phases, what they used meanwhile is recalled. Without that, a stretch
// finds in the caches what the one before left. So the stretches of phases that move the same lines
// must not begin at the same of them.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// Lines of all ranks, those of pages that the ranks share once: a stretch has so many different
// lines, whoever moves them. Everything: `period` 0.
struct Excerpt {
    std::uint64_t period = 0;    // from the beginning of a stretch to that of the next
    std::uint64_t stretch = 0;   // at most period
    std::uint64_t warm_up = 0;   // of the stretch, not counted; less than it
    std::uint64_t begin = 0;     // of the first stretch; at most period - stretch
    std::uint64_t recalled = 0;  // before each stretch at most, and not counted

    enum class Part : std::uint8_t { skipped, warm_up, counted };
    // Returns where the line lies that a phase moves after `lines` others.
    [[nodiscard]] Part part(std::uint64_t lines) const {
        if (period == 0) return Part::counted;
        const std::uint64_t at = (lines + period - begin) % period;
        return at >= stretch ? Part::skipped : at < warm_up ? Part::warm_up : Part::counted;
    }
    // Returns a number that all lines have which one stretch and what is skipped behind it have.
    [[nodiscard]] std::uint64_t stretch_at(std::uint64_t lines) const {
        return period == 0 ? 0 : (lines + period - begin) / period;
    }
    // Returns whether none of the next `count` lines lies in a stretch.
    [[nodiscard]] bool skips(std::uint64_t lines, std::uint64_t count) const {
        if (period == 0) return false;
        const std::uint64_t at = (lines + period - begin) % period;
        return at >= stretch && at + count <= period;
    }
    // Returns the number of the stretch in which that line lies. Precondition: it is counted.
    [[nodiscard]] std::uint64_t number(std::uint64_t lines) const {
        return period == 0 ? 0 : (lines - begin) / period;
    }
};

// The program without the lines that `ranks` copies of it skip: replays of it with the same
// excerpts count the same. Throws std::invalid_argument unless there is an excerpt for each phase,
// with warm_up < stretch <= period and begin <= period - stretch where the period is not 0.
// `groups` are those of RecentLines. With them, caches are refilled, and what is recalled for that
// is in few ops (MergedRecall).
std::unique_ptr<Program> excerpted(const Program& program, std::uint32_t ranks,
                                   const std::vector<Excerpt>& excerpts,
                                   std::vector<std::uint32_t> groups = {});
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
        case OpKind::recall:
        case OpKind::recall_dirty:
        case OpKind::meet:
        case OpKind::hint_fault:
        case OpKind::swap_threads:
            return 0;
    }
    return 0;
}

// Returns whether all lines of a batch of one phase are skipped, after `moved` [phase] others. Each
// line is that of `copies` pages at most. `phase` is that of the op before.
inline bool skips_batch(std::span<const Op> ops, const std::vector<Excerpt>& excerpts,
                        const std::vector<std::uint64_t>& moved, unsigned phase,
                        std::uint64_t copies) {
    std::uint64_t lines = 0;
    for (const Op& op : ops) {
        if (op.kind() == OpKind::phase) phase = op.page;
        lines += copies * most_lines(op);
    }
    return excerpts[phase].skips(moved[phase], lines);
}

// Returns the lines of each phase that `ranks` copies of a program move in a replay. Lines of
// files, which the copies share, count once; those that the kernel clears do not count.
std::vector<std::uint64_t> lines_by_phase(const Program& program, std::uint32_t ranks);
// Lines of one copy, and its faults of memory that it only reads.
struct Moved {
    std::uint64_t read = 0;         // fetched
    std::uint64_t written = 0;      // written back
    std::uint64_t streamed = 0;     // stored past the caches
    std::uint64_t cleared = 0;      // by the kernel, at most
    std::uint64_t zero_faults = 0;  // each maps the kernel's one page of zeros
    std::uint64_t file_faults = 0;  // each maps the pages of a file in one block of 64 KiB
};
std::vector<Moved> moved_by_phase(const Program& program);
// Returns the most lines that one copy moves in each phase, as most_lines() has it.
std::vector<std::uint64_t> most_lines_by_phase(const Program& program);

}  // namespace pagelens
