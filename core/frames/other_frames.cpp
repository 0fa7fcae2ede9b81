// Sources of frames that are not the kernel's allocator: contiguous, random, coloured.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/frames/cpu_batches.hpp"
#include "core/frames/philox.hpp"
#include "core/frames/placement.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {
namespace {

// One bit a frame.
class FrameSet {
  public:
    FrameSet(std::uint32_t frames, bool all) : words_((frames + 63) / 64, all ? ~0ull : 0) {}
    [[nodiscard]] bool has(std::uint32_t f) const { return (words_[f / 64] >> (f % 64) & 1) != 0; }
    void add(std::uint32_t f) { words_[f / 64] |= 1ull << (f % 64); }
    void remove(std::uint32_t f) { words_[f / 64] &= ~(1ull << (f % 64)); }

  private:
    std::vector<std::uint64_t> words_;
};

class ContiguousFrames : public FrameSource {
  public:
    ContiguousFrames(std::uint32_t frames, const JobShape& job)
        : region_(std::min(job.pages_per_rank, frames / job.ranks)), ranks_(job.ranks) {}

    std::optional<Frame> alloc(Request request) override {
        Region& rank = ranks_[request.cpu];
        if (!rank.freed.empty()) {
            const Frame frame = rank.freed.back();
            rank.freed.pop_back();
            return frame;
        }
        if (rank.next == region_) return std::nullopt;
        return Frame(request.cpu * region_ + rank.next++);
    }
    void free(Request request, Frame frame) override { ranks_[request.cpu].freed.push_back(frame); }

  private:
    struct Region {
        std::uint32_t next = 0;
        std::vector<Frame> freed;
    };
    std::uint32_t region_;  // frames
    std::vector<Region> ranks_;
};

class RandomFrames : public FrameSource {
  public:
    RandomFrames(std::uint32_t frames, Random random)
        : frames_(frames), left_(frames), taken_((frames + 63) / 64 * 8), random_(random) {
        for (std::uint32_t& draw : ahead_) draw = drawn();
    }

    std::optional<Frame> alloc(Request) override {
        if (left_ == 0) return std::nullopt;
        std::uint32_t frame;
        do {
            frame = std::exchange(ahead_[next_], drawn());
            next_ = (next_ + 1) % ahead_.size();
        } while ((word(frame) >> (frame % 64) & 1) != 0);
        word(frame) |= 1ull << (frame % 64);
        --left_;
        return Frame(frame);
    }
    void free(Request, Frame frame) override {
        word(frame.raw()) &= ~(1ull << (frame.raw() % 64));
        ++left_;
    }

  private:
    std::uint64_t& word(std::uint32_t frame) {
        return reinterpret_cast<std::uint64_t*>(taken_.data())[frame / 64];
    }
    // The next draw; whether it is free is looked up when it is used, by when its bit has arrived.
    std::uint32_t drawn() {
        const std::uint32_t frame = random_.below(frames_);
        __builtin_prefetch(&word(frame), 1);
        return frame;
    }

    std::uint32_t frames_, left_;
    HugeArray taken_;  // one bit a frame
    Random random_;
    std::array<std::uint32_t, 16> ahead_;
    std::size_t next_ = 0;
};

// Walks the slots in order, one population level after the other: at level L only slots with L of
// the job's pages get one more. A slot emptied by a free is used first.
class ColouredFrames : public FrameSource {
  public:
    ColouredFrames(FrameSet free, std::uint32_t frames, std::uint32_t slots)
        : frames_(frames), slots_(slots), free_(std::move(free)), population_(slots) {}

    std::optional<Frame> alloc(Request request) override {
        const auto refill = [this](std::span<Frame> out) {
            unsigned count = 0;
            while (count < out.size()) {
                const auto frame = next();
                if (!frame) break;
                out[count++] = *frame;
            }
            return count;
        };
        const auto frame = batches_.take(request.cpu, refill);
        return frame ? frame : batches_.steal();
    }
    void free(Request, Frame frame) override {
        const std::uint32_t slot = frame.raw() % slots_;
        free_.add(frame.raw());
        --population_[slot];
        emptied_.push_back(slot);
    }

  private:
    std::optional<Frame> next() {
        while (!emptied_.empty()) {
            const std::uint32_t slot = emptied_.back();
            emptied_.pop_back();
            if (population_[slot] > level_) continue;  // filled again since
            if (const auto frame = take(slot)) return frame;
        }
        while (std::uint64_t{level_} * slots_ < frames_) {
            while (at_ < slots_) {
                const std::uint32_t slot = at_++;
                if (population_[slot] > level_) continue;
                if (const auto frame = take(slot)) return frame;
            }
            at_ = 0;
            ++level_;
        }
        return std::nullopt;
    }
    std::optional<Frame> take(std::uint32_t slot) {
        for (std::uint64_t frame = slot; frame < frames_; frame += slots_) {
            const auto f = static_cast<std::uint32_t>(frame);
            if (!free_.has(f)) continue;
            free_.remove(f);
            ++population_[slot];
            return Frame(f);
        }
        return std::nullopt;
    }

    std::uint32_t frames_, slots_;
    FrameSet free_;
    std::vector<std::uint32_t> population_;  // [slot] frames handed out
    std::vector<std::uint32_t> emptied_;
    std::uint32_t level_ = 0, at_ = 0;
    CpuBatches batches_;
};

class ContiguousPlacement : public Placement {
  public:
    explicit ContiguousPlacement(std::uint32_t frames) : frames_(frames) {}
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        return std::make_unique<ContiguousFrames>(frames_, job);
    }
    [[nodiscard]] std::uint32_t frames() const override { return frames_; }

  private:
    std::uint32_t frames_;
};

class RandomPlacement : public Placement {
  public:
    RandomPlacement(std::uint32_t frames, Random random) : frames_(frames), random_(random) {}
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<RandomFrames>(frames_, random_);
    }
    [[nodiscard]] std::uint32_t frames() const override { return frames_; }

  private:
    std::uint32_t frames_;
    Random random_;
};

class ColouredPlacement : public Placement {
  public:
    ColouredPlacement(const Buddy& state, std::uint32_t slots)
        : free_(state.frames(), false), frames_(state.frames()), slots_(slots) {
        for (unsigned order = 0; order <= max_order; ++order) {
            for (const Frame block : state.free_list(order)) {
                for (std::uint32_t i = 0; i < 1u << order; ++i) free_.add(block.raw() + i);
            }
        }
    }
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<ColouredFrames>(free_, frames_, slots_);
    }
    [[nodiscard]] std::uint32_t frames() const override { return frames_; }

  private:
    FrameSet free_;
    std::uint32_t frames_, slots_;
};

}  // namespace

std::unique_ptr<Placement> place_contiguously(std::uint32_t frames) {
    return std::make_unique<ContiguousPlacement>(frames);
}

std::unique_ptr<Placement> place_at_random(std::uint32_t frames, std::uint64_t seed,
                                           std::uint32_t node) {
    return std::make_unique<RandomPlacement>(frames, Random(seed, node, 0, Stream::random_frames));
}

std::unique_ptr<Placement> place_by_colour(const Buddy& state, std::uint32_t slots) {
    if (slots == 0) throw std::invalid_argument("slots: 0 leaves no slot to place a page in");
    return std::make_unique<ColouredPlacement>(state, slots);
}

}  // namespace pagelens
