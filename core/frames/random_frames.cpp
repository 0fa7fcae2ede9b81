// Frames drawn at random from all of memory.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/frames/placement.hpp"
#include "core/machine/huge_array.hpp"
#include "core/random/philox.hpp"

namespace pagelens {
namespace {

class RandomFrames : public FrameSource {
  public:
    RandomFrames(std::uint32_t frames, Random random)
        : frames_(frames), left_(frames), taken_((frames + 63) / 64 * 8), random_(random) {
        for (std::uint32_t& draw : ahead_) draw = drawn();
    }

    MaybeFrame alloc(const Request&) override {
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
    void free(const Request&, Frame frame) override {
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

}  // namespace

std::unique_ptr<Placement> place_at_random(std::uint32_t frames, std::uint64_t seed,
                                           std::uint32_t node) {
    return std::make_unique<RandomPlacement>(frames, Random(seed, node, 0, Stream::random_frames));
}

}  // namespace pagelens
