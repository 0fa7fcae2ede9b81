// A kernel whose pages are larger than 4 KiB, as of 64 KiB on Arm. Its allocator is that of 4 KiB
// pages with fewer and larger frames, so only the numbers and orders of frames differ outside of
// it.
#include <utility>

#include "core/frames/placement.hpp"

namespace pagelens {
namespace {

class LargerFrames final : public FrameSource {
  public:
    LargerFrames(std::unique_ptr<FrameSource> inner, unsigned base_order)
        : inner_(std::move(inner)), base_order_(base_order) {}

    MaybeFrame alloc(const Request& request) override {
        const auto given = inner_->alloc(of_inner(request));
        if (!given) return std::nullopt;
        return Frame(given->raw() << base_order_);
    }
    void free(const Request& request, Frame frame) override {
        inner_->free(of_inner(request), Frame(frame.raw() >> base_order_));
    }

  private:
    [[nodiscard]] Request of_inner(Request request) const {
        request.order = request.order > base_order_ ? request.order - base_order_ : small_order;
        return request;
    }

    std::unique_ptr<FrameSource> inner_;
    unsigned base_order_;
};

class LargerPages final : public Placement {
  public:
    LargerPages(std::unique_ptr<Placement> inner, unsigned base_order)
        : inner_(std::move(inner)), base_order_(base_order) {}

    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        return std::make_unique<LargerFrames>(inner_->open(job), base_order_);
    }
    [[nodiscard]] std::uint32_t frames() const override { return inner_->frames() << base_order_; }
    [[nodiscard]] unsigned page_order() const override {
        const unsigned order = inner_->page_order();
        return order == small_order ? small_order : order + base_order_;
    }
    [[nodiscard]] unsigned base_order() const override { return base_order_; }

  private:
    std::unique_ptr<Placement> inner_;
    unsigned base_order_;
};

}  // namespace

std::unique_ptr<Placement> place_in_larger_pages(std::unique_ptr<Placement> inner,
                                                 unsigned base_order) {
    return std::make_unique<LargerPages>(std::move(inner), base_order);
}

}  // namespace pagelens
