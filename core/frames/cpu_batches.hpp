// Frames come to a CPU in batches, as through Linux's per-cpu lists: neighbouring touches of one
// process get neighbouring frames even while all processes touch in turn. Without it, ranks in
// lockstep would each see only every ranks-th frame, and so a fraction of their L2 cache's sets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/address/units.hpp"

namespace pagelens {

inline constexpr unsigned cpu_batch = 16;  // frames; Linux 6.1 refills up to 63 at a time

class CpuBatches {
  public:
    // The next frame of this CPU; an empty batch is filled with up to cpu_batch frames, handed out
    // in the order of `refill(std::span<Frame>) -> how many`.
    template <class Refill>
    std::optional<Frame> take(unsigned cpu, Refill&& refill) {
        if (cpu >= batches_.size()) batches_.resize(cpu + 1);
        Batch& batch = batches_[cpu];
        if (batch.next == batch.count) {
            batch.next = 0;
            batch.count = refill(std::span<Frame>(batch.frames));
            if (batch.count == 0) return std::nullopt;
        }
        return batch.frames[batch.next++];
    }

    // A frame that some other CPU's batch still holds: the last resort before memory is full.
    std::optional<Frame> steal() {
        for (Batch& batch : batches_) {
            if (batch.next < batch.count) return batch.frames[--batch.count];
        }
        return std::nullopt;
    }

  private:
    struct Batch {
        Frame frames[cpu_batch];
        unsigned next = 0;
        unsigned count = 0;
    };
    std::vector<Batch> batches_;
};

}  // namespace pagelens
