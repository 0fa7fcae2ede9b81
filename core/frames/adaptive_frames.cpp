// Adaptive mapping: the kernel's frames, and once they conflict too much, random ones.
#include <utility>
#include <vector>

#include "core/frames/page_cache.hpp"
#include "core/frames/placement.hpp"

namespace pagelens {
namespace {

class AdaptiveFrames : public FrameSource {
  public:
    AdaptiveFrames(std::unique_ptr<FrameSource> kernel, Random random)
        : kernel_(std::move(kernel)), random_(random) {}

    MaybeFrame alloc(const Request& request) override {
        if (!shuffled_) return kernel_->alloc(request);
        if (request.order != small_order || pool_.empty()) return std::nullopt;
        const Frame frame = pool_.back();
        pool_.pop_back();
        return frame;
    }
    void free(const Request& request, Frame frame) override {
        if (!shuffled_) return kernel_->free(request, frame);
        pool_.push_back(frame);
        std::swap(pool_[random_.below(static_cast<std::uint32_t>(pool_.size()))], pool_.back());
    }
    void shuffle() override {
        if (std::exchange(shuffled_, true)) return;
        while (const auto frame = kernel_->alloc({})) pool_.push_back(*frame);
        shuffle_items(pool_, random_);
    }

  private:
    std::unique_ptr<FrameSource> kernel_;
    Random random_;
    bool shuffled_ = false;
    std::vector<Frame> pool_;  // all that is free, in random order
};

class AdaptivePlacement : public Placement {
  public:
    AdaptivePlacement(NodeState state, double shuffle_above, Random random)
        : kernel_(place_by_kernel(std::move(state), small_order)),
          shuffle_above_(shuffle_above),
          random_(random) {}
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        return std::make_unique<AdaptiveFrames>(kernel_->open(job), random_);
    }
    [[nodiscard]] std::uint32_t frames() const override { return kernel_->frames(); }
    [[nodiscard]] double shuffle_above() const override { return shuffle_above_; }

  private:
    std::unique_ptr<Placement> kernel_;
    double shuffle_above_;
    Random random_;
};

}  // namespace

std::unique_ptr<Placement> place_adaptively(NodeState state, double shuffle_above,
                                            std::uint64_t seed, std::uint32_t node) {
    return std::make_unique<AdaptivePlacement>(std::move(state), shuffle_above,
                                               Random(seed, node, 0, Stream::random_frames));
}

}  // namespace pagelens
