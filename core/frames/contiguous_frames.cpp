// Contiguous frames, as Catamount gives them: each rank has a region of memory.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/frames/placement.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {
namespace {

// A rank has a region of memory: its pages by address, then what the kernel takes for it. A frame
// belongs to one page for good, so nothing is noted when it is freed.
class ContiguousFrames : public FrameSource {
  public:
    ContiguousFrames(std::uint32_t frames, const JobShape& job) : of_kernel_(job.ranks) {
        const std::uint32_t most = frames / job.ranks;
        const auto pages = static_cast<std::uint32_t>(job.pages.size());
        const std::uint32_t kernel = pages == 0 ? 0 : job.pages_per_rank - pages;
        std::uint64_t own = find_places(job.pages);
        if (own == pages || own + kernel > most) {
            places_.clear();  // page after page
            own = job.pages_per_rank - kernel;
        }
        own_ = static_cast<std::uint32_t>(own);
        region_ = std::min(own_ + kernel, most);
    }

    MaybeFrame alloc(const Request& request) override {
        const std::uint32_t place = request.type == MigrateType::unmovable
                                        ? own_ + of_kernel_[request.rank]++
                                    : places_.empty() ? request.page
                                                      : places_[request.page];
        if (place >= region_) return std::nullopt;
        return Frame(request.rank * region_ + place);
    }
    void free(const Request&, Frame) override {}

  private:
    // Gives pages their places by address, without whole large pages between them; returns one more
    // than the last place.
    std::uint64_t find_places(std::span<const VirtualPage> pages) {
        std::uint64_t next = 0;
        VirtualPage last;
        places_.reserve(pages.size());
        for (const VirtualPage page : pages) {
            if (!places_.empty() && page > last)
                next += (page.raw() - last.raw() - 1) % (1u << huge_order);
            places_.push_back(static_cast<std::uint32_t>(next++));
            last = page;
        }
        return next;
    }

    std::uint32_t own_ = 0;                 // frames of a region that are not the kernel's
    std::uint32_t region_ = 0;              // frames
    HugeVector<std::uint32_t> places_;      // [page] in the region; empty: its number
    std::vector<std::uint32_t> of_kernel_;  // [rank]
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

}  // namespace

std::unique_ptr<Placement> place_contiguously(std::uint32_t frames) {
    return std::make_unique<ContiguousPlacement>(frames);
}

}  // namespace pagelens
