// Frames that are known beforehand: those that a real machine gave to a program.
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/frames/placement.hpp"

namespace pagelens {
namespace {

class GivenFrames : public FrameSource {
  public:
    GivenFrames(const std::vector<Frame>& of_pages, const std::vector<bool>& given,
                const JobShape& job)
        : of_pages_(of_pages), given_(given), places_(job.pages.begin(), job.pages.end()) {}

    MaybeFrame alloc(const Request& request) override {
        if (request.type == MigrateType::unmovable) return next_other(request.order);
        const std::uint64_t first =
            places_.empty() ? request.page : places_[request.page].raw() - places_.front().raw();
        const std::uint64_t count = std::uint64_t{1} << request.order;
        if (first + count > of_pages_.size()) return std::nullopt;
        const Frame frame = of_pages_[first];
        if (frame.raw() % count != 0) return std::nullopt;
        for (std::uint64_t at = 1; at < count; ++at)
            if (of_pages_[first + at].raw() != frame.raw() + at) return std::nullopt;
        return frame;
    }
    void free(const Request&, Frame) override {}

  private:
    // The kernel's own frames were not told: they are taken from the top, where none is given.
    MaybeFrame next_other(unsigned order) {
        if (order != small_order) return std::nullopt;
        while (others_ < given_.size()) {
            const auto frame = static_cast<std::uint32_t>(given_.size() - ++others_);
            if (!given_[frame]) return Frame(frame);
        }
        return std::nullopt;
    }

    const std::vector<Frame>& of_pages_;
    const std::vector<bool>& given_;
    std::vector<VirtualPage> places_;
    std::size_t others_ = 0;
};

class GivenPlacement : public Placement {
  public:
    GivenPlacement(std::vector<Frame> of_pages, std::uint32_t frames, unsigned page_order)
        : of_pages_(std::move(of_pages)), given_(frames), page_order_(page_order) {
        for (const Frame frame : of_pages_) {
            if (frame.raw() >= frames)
                throw std::invalid_argument("a given frame lies beyond the node's memory");
            given_[frame.raw()] = true;
        }
    }
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        if (job.ranks != 1) throw std::invalid_argument("frames were given for one rank only");
        return std::make_unique<GivenFrames>(of_pages_, given_, job);
    }
    [[nodiscard]] std::uint32_t frames() const override {
        return static_cast<std::uint32_t>(given_.size());
    }
    [[nodiscard]] unsigned page_order() const override { return page_order_; }

  private:
    std::vector<Frame> of_pages_;
    std::vector<bool> given_;  // [frame]
    unsigned page_order_;
};

}  // namespace

std::unique_ptr<Placement> place_as_given(std::vector<Frame> of_pages, std::uint32_t frames,
                                          unsigned page_order) {
    return std::make_unique<GivenPlacement>(std::move(of_pages), frames, page_order);
}

}  // namespace pagelens
