// Samples of what a thread executes: now and then some thousand instructions in a row, block by
// block, with the accesses that the strip did not hide. They tell how instructions depend on each
// other and which branches can be foreseen (docs/core-model.md).
//
// While a sample is taken the tracer looks at the thread in each of its blocks. At all other times
// sampling costs nothing but a test for accesses that pass the strip.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/accesses/trace_format.hpp"
#include "tracer/access_place.hpp"

namespace pagelens {

class InstructionSampler {
  public:
    // Distances of samples in instructions: at least so much, and of a long run this share of it,
    // so that the number of samples grows with the logarithm of its length.
    static constexpr std::uint64_t least_distance = 1u << 16;
    static constexpr unsigned distance_shift = 8;
    // A phase that has fewer samples gets one soon after it begins.
    static constexpr unsigned wanted_of_phase = 32;
    static constexpr std::uint64_t soon = 1u << 13;

    [[nodiscard]] bool due(std::uint64_t instructions) const {
        return instructions >= next_ && !pauses_;
    }

    // No sample is taken from here until go_on(). Distances of samples leave this time out.
    void pause(std::uint64_t instructions) {
        pauses_ = true;
        paused_at_ = instructions;
    }
    void go_on(std::uint64_t instructions) {
        if (pauses_) next_ += instructions - paused_at_;
        pauses_ = false;
    }

    void enter_phase(std::uint64_t phase, std::uint64_t instructions) {
        phase_ = phase;
        if (of_phase_[phase] < wanted_of_phase) next_ = std::min(next_, instructions + soon);
    }

    void begin(std::uint64_t thread, std::uint64_t instructions) {
        sample_ = {thread, instructions, phase_, {}, {}};
        waiting_.clear();
        ++of_phase_[phase_];
        // Half of the distance to one and a half of it, so that no loop keeps step with samples.
        const std::uint64_t distance = std::max(least_distance, instructions >> distance_shift);
        random_ = random_ * 6364136223846793005u + 1442695040888963407u;
        next_ = instructions + distance / 2 + (random_ >> 33) % distance;
    }

    // The thread executes this block.
    void block(std::uint32_t number) {
        sample_.blocks.push_back(number);
        for (SampledAccess& access : waiting_) {
            access.block = sample_.blocks.size() - 1;
            sample_.accesses.push_back(access);
        }
        waiting_.clear();
    }

    // An access that the strip did not hide. What comes before its block is counted waits for it.
    void access(AccessPlace place, std::uint64_t line, bool store) {
        if (sample_.blocks.empty()) return;
        const std::uint64_t current = sample_.blocks.size() - 1;
        const SampledAccess access{current, place.instruction(), store, line};
        if (place.early()) {
            waiting_.push_back(access);
        } else if (place.block() == sample_.blocks.back() || place.string()) {
            sample_.accesses.push_back(access);
        }
    }

    // Ends the sample and returns it.
    InstructionSample end() { return std::exchange(sample_, {}); }

  private:
    InstructionSample sample_;
    std::vector<SampledAccess> waiting_;
    std::unordered_map<std::uint64_t, unsigned> of_phase_;
    std::uint64_t phase_ = 0;
    std::uint64_t next_ = 0;
    std::uint64_t paused_at_ = 0;
    bool pauses_ = false;
    std::uint64_t random_ = 1;
};

}  // namespace pagelens
