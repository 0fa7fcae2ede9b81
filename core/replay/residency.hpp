// Counts how many of the job's pages lie in each slot while pages come and go. It is exact, never
// sampled.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/machine/huge_array.hpp"
#include "core/replay/counters.hpp"

namespace pagelens {

class SlotPopulation {
  public:
    // `slots` 0: no memory-side cache, only pages are counted. `bins`: of the map, at most slots.
    // About `touched` slots are going to be used, or any number.
    SlotPopulation(std::uint32_t slots, std::uint32_t bins, std::size_t touched = HugeArray::any)
        : slots_(slots), population_(slots, touched), bins_(slots == 0 ? 0 : bins) {
        if (slots != 0) bin_shift_ = static_cast<unsigned>(std::countr_zero(slots / bins));
    }

    // A frame's slot lies anywhere: it is fetched now, and looked at some frames later.
    void add(std::uint32_t frame) {
        ++pages_;
        if (slots_ == 0) return;
        const std::uint32_t slot = frame & (slots_ - 1);
        __builtin_prefetch(population_.data() + slot, 1);
        pending_[pending_count_++] = slot;
        if (pending_count_ == pending_.size()) settle();
    }
    void remove(std::uint32_t frame) {
        if (pages_ > peak_.pages) note_peak();
        settle();
        --pages_;
        if (slots_ == 0) return;
        const std::uint32_t slot = frame & (slots_ - 1);
        const unsigned now = --population_.data()[slot];
        conflicting_ -= (now == 1 ? 2u : 0u) + (now > 1 ? 1u : 0u);
        --bins_[slot >> bin_shift_];
    }

    // Begins anew, because the pages no longer lie as they did.
    void forget_peak() { peak_ = {}; }
    // The state when most pages were resident, for the first time.
    Residency peak() {
        if (pages_ > peak_.pages) note_peak();
        return peak_;
    }

  private:
    void settle() {
        for (std::size_t i = 0; i < pending_count_; ++i) {
            const std::uint32_t slot = pending_[i];
            const unsigned now = ++population_.data()[slot];
            conflicting_ +=
                (now == 2 ? 2u : 0u) + (now > 2 ? 1u : 0u);  // no branch: hard to foresee
            ++bins_[slot >> bin_shift_];
        }
        pending_count_ = 0;
    }
    void note_peak() {
        settle();
        peak_ = {pages_, conflicting_, static_cast<std::uint32_t>(bins_.size()), bins_};
    }

    std::uint32_t slots_;
    unsigned bin_shift_ = 0;
    HugeArray population_;  // [slot]
    std::vector<std::uint32_t> bins_;
    std::array<std::uint32_t, 32> pending_;  // slots of frames added last
    std::size_t pending_count_ = 0;
    std::uint64_t pages_ = 0, conflicting_ = 0;
    Residency peak_;
};

}  // namespace pagelens
