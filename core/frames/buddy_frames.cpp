// The kernel's allocator as a source of frames, and the pool of 1 GiB pages beside it.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "core/frames/cpu_batches.hpp"
#include "core/frames/placement.hpp"
#include "core/frames/single_frames.hpp"

namespace pagelens {
namespace {

constexpr std::uint32_t gigabyte_frames = 1u << gigantic_order;
constexpr std::uint32_t gigabytes_left = 4;  // for the system and for small mappings

class BuddyFrames : public FrameSource {
  public:
    BuddyFrames(const Buddy& state, std::uint32_t gigabytes) : frames_(state) {
        frames_.buddy().reserve(Frame(0), Frame(gigabytes * gigabyte_frames));
        for (std::uint32_t i = gigabytes; i-- > 0;) pool_.emplace_back(i * gigabyte_frames);
    }

    std::optional<Frame> alloc(Request request) override {
        if (request.order == gigantic_order) return take_gigabyte();
        if (request.order == huge_order) return frames_.buddy().alloc(huge_order);
        assert(request.order == small_order);
        const auto refill = [this](std::span<Frame> out) { return frames_.take(out); };
        const auto frame = batches_.take(request.cpu, refill);
        return frame ? frame : batches_.steal();
    }

    void free(Request request, Frame frame) override {
        if (request.order == gigantic_order) return pool_.push_back(frame);
        if (request.order == huge_order) return frames_.buddy().free(frame, huge_order);
        frames_.put(frame);
    }

  private:
    std::optional<Frame> take_gigabyte() {
        if (pool_.empty()) return std::nullopt;
        const Frame frame = pool_.back();
        pool_.pop_back();
        return frame;
    }

    SingleFrames frames_;
    CpuBatches batches_;
    std::vector<Frame> pool_;  // free 1 GiB pages, last freed on top
};

class BuddyPlacement : public Placement {
  public:
    BuddyPlacement(Buddy state, unsigned page_order)
        : state_(std::move(state)), page_order_(page_order) {}

    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        std::uint32_t gigabytes = 0;
        if (page_order_ == gigantic_order) {
            const std::uint32_t present = state_.frames() / gigabyte_frames;
            gigabytes = std::min(job.gigabyte_blocks, present - std::min(present, gigabytes_left));
        }
        return std::make_unique<BuddyFrames>(state_, gigabytes);
    }
    [[nodiscard]] std::uint32_t frames() const override { return state_.frames(); }
    [[nodiscard]] unsigned page_order() const override { return page_order_; }

  private:
    Buddy state_;
    unsigned page_order_;
};

}  // namespace

std::unique_ptr<Placement> place_by_buddy(Buddy state, unsigned page_order) {
    assert(page_order == small_order || page_order == huge_order);
    return std::make_unique<BuddyPlacement>(std::move(state), page_order);
}

std::unique_ptr<Placement> place_in_gigabytes(Buddy state) {
    return std::make_unique<BuddyPlacement>(std::move(state), gigantic_order);
}

}  // namespace pagelens
