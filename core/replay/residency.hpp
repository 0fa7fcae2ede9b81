// How many of the job's pages lie in each slot, kept while pages come and go; exact, never sampled.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/replay/counters.hpp"

namespace pagelens {

class SlotPopulation {
  public:
    // `slots` 0: no memory-side cache, only pages are counted. `bins`: of the map, at most slots.
    SlotPopulation(std::uint32_t slots, std::uint32_t bins)
        : slots_(slots), population_(slots), bins_(slots == 0 ? 0 : bins) {
        if (slots != 0) bin_shift_ = static_cast<unsigned>(std::countr_zero(slots / bins));
    }

    void add(std::uint32_t frame) {
        ++pages_;
        if (slots_ == 0) return;
        const std::uint32_t slot = frame & (slots_ - 1);
        const unsigned now = ++population_[slot];
        if (now > 1) conflicting_ += now == 2 ? 2 : 1;
        ++bins_[slot >> bin_shift_];
    }
    void remove(std::uint32_t frame) {
        if (pages_ > peak_.pages) note_peak();
        --pages_;
        if (slots_ == 0) return;
        const std::uint32_t slot = frame & (slots_ - 1);
        const unsigned now = --population_[slot];
        if (now > 0) conflicting_ -= now == 1 ? 2 : 1;
        --bins_[slot >> bin_shift_];
    }

    // The state when most pages were resident, for the first time.
    Residency peak() {
        if (pages_ > peak_.pages) note_peak();
        return peak_;
    }

  private:
    void note_peak() {
        peak_ = {pages_, conflicting_, static_cast<std::uint32_t>(bins_.size()), bins_};
    }

    std::uint32_t slots_;
    unsigned bin_shift_ = 0;
    std::vector<std::uint8_t> population_;
    std::vector<std::uint32_t> bins_;
    std::uint64_t pages_ = 0, conflicting_ = 0;
    Residency peak_;
};

}  // namespace pagelens
