// Watches the counter of conflicts while a program runs, and says when they have climbed: what
// adaptive mapping acts on (Ferreira, Pedretti, Brightwell, CUG 2008).
#pragma once

#include <cstdint>

#include "core/replay/counters.hpp"

namespace pagelens {

class ConflictWatch {
  public:
    // `limit`: the share of lines that may push another one out; `window`: lines between two looks.
    ConflictWatch(double limit, std::uint64_t window) : limit_(limit), window_(window) {}

    // Returns whether the pages should be shuffled now: the share since the last look is above the
    // limit, and above what the last shuffle left, by a quarter (assumed).
    bool look(const Counters& counters) {
        std::uint64_t lines = 0, conflicts = 0;
        const auto of = [](const std::uint64_t* row, Component component) {
            return row[static_cast<std::size_t>(component)];
        };
        for (std::size_t at = 0; at < counters.table.size(); at += components) {
            const std::uint64_t* const row = &counters.table[at];
            lines += of(row, Component::msc_reads) + of(row, Component::msc_writes);
            conflicts += of(row, Component::conflict_evictions);
        }
        if (lines - lines_ < window_) return false;
        const double share =
            static_cast<double>(conflicts - conflicts_) / static_cast<double>(lines - lines_);
        lines_ = lines;
        conflicts_ = conflicts;
        if (settling_ > 0) {  // the copies themselves, then what they left
            --settling_;
            settled_ = share;
            return false;
        }
        if (share <= limit_ || share <= settled_ * 1.25) return false;
        settling_ = 2;
        return true;
    }

  private:
    double limit_;
    std::uint64_t window_;
    std::uint64_t lines_ = 0, conflicts_ = 0;  // at the last look
    double settled_ = 0;                       // share after the last shuffle
    int settling_ = 0;                         // looks until that is known
};

}  // namespace pagelens
