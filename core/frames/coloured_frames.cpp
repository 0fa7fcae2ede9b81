// Frames by colour: each page gets one of the colour that the job uses least.
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/frames/frame_set.hpp"
#include "core/frames/placement.hpp"

namespace pagelens {
namespace {

// Pages of one order by colour: walks the colours in order, one population level after the other:
// at level L only colours with L of the job's pages get one more. Colours that a free left below
// that come first, those with fewest pages before others, of equals the one freed last. A colour is
// as many neighbouring slots as a page has frames.
class Colours {
  public:
    // `free` has a bit for each page of this order.
    Colours(FrameSet free, std::uint32_t pages, std::uint32_t colours)
        : pages_(pages), colours_(colours), free_(std::move(free)), population_(colours) {}

    std::optional<std::uint32_t> take() {
        while (!emptied_.empty()) {
            const Emptied next = emptied_.top();
            emptied_.pop();
            const std::uint32_t pages = population_[next.colour];
            if (pages != next.pages || pages > level_) continue;  // it was taken or freed since
            if (const auto page = take_of(next.colour)) {
                emptied_.push({pages + 1, next.freed, next.colour});
                return page;
            }
        }
        while (std::uint64_t{level_} * colours_ < pages_) {
            while (at_ < colours_) {
                const std::uint32_t colour = at_++;
                if (population_[colour] > level_) continue;
                if (const auto page = take_of(colour)) return page;
            }
            at_ = 0;
            ++level_;
        }
        return std::nullopt;
    }
    void put(std::uint32_t page) {
        const std::uint32_t colour = page % colours_;
        free_.add(page);
        --population_[colour];
        emptied_.push({population_[colour], ++frees_, colour});
    }

  private:
    std::optional<std::uint32_t> take_of(std::uint32_t colour) {
        for (std::uint64_t page = colour; page < pages_; page += colours_) {
            const auto p = static_cast<std::uint32_t>(page);
            if (!free_.has(p)) continue;
            free_.remove(p);
            ++population_[colour];
            return p;
        }
        return std::nullopt;
    }

    std::uint32_t pages_, colours_;
    FrameSet free_;
    std::vector<std::uint32_t> population_;  // [colour] pages handed out
    struct Emptied {
        std::uint32_t pages;  // population then
        std::uint64_t freed;  // the how-manieth
        std::uint32_t colour;
        friend bool operator<(const Emptied& a, const Emptied& b) {  // comes later
            return std::tie(a.pages, b.freed) > std::tie(b.pages, a.freed);
        }
    };
    std::priority_queue<Emptied> emptied_;
    std::uint64_t frees_ = 0;
    std::uint32_t level_ = 0, at_ = 0;
};

// Frames from pages chosen by colour. Single frames come to a rank in batches of neighbours, as the
// kernel's do, so that a rank's neighbouring touches do not lie a job's ranks apart: a batch of
// single frames. Where pages are large, they come from what is free in smaller blocks, as the
// kernel's do beside a pool of large pages; when that is used up, all frames of a large one.
class ColouredFrames : public FrameSource {
  public:
    using Blocks = std::shared_ptr<const std::vector<FreeBlock>>;

    // `fragments`: free blocks smaller than a page of this order, in the order in which they are
    // used.
    ColouredFrames(const Colours& colours, unsigned order, Blocks fragments)
        : colours_(colours), order_(order), fragments_(std::move(fragments)) {}

    MaybeFrame alloc(const Request& request) override {
        if (request.order != small_order) {
            const auto page = colours_.take();
            return page ? MaybeFrame(Frame(*page << order_)) : MaybeFrame();
        }
        if (request.cpu >= held_.size()) held_.resize(request.cpu + 1);
        std::vector<Frame>& own = held_[request.cpu];
        if (own.empty()) refill(own);
        if (!own.empty()) return last_of(own);
        for (auto& others : held_) {  // the last resort before memory is full
            if (!others.empty()) return last_of(others);
        }
        return std::nullopt;
    }

    void free(const Request& request, Frame frame) override {
        if (request.order == order_) return colours_.put(frame.raw() >> order_);
        held_[request.cpu].push_back(frame);
    }

  private:
    static constexpr unsigned batch = 16;  // frames

    void refill(std::vector<Frame>& own) {
        while (own.size() < batch) {
            const auto frame = order_ > small_order ? fragment() : single();
            if (!frame) break;
            own.push_back(*frame);
        }
        std::reverse(own.begin(), own.end());
        if (!own.empty() || order_ == small_order) return;
        const auto page = colours_.take();
        if (!page) return;
        for (std::uint32_t i = 1u << order_; i-- > 0;) own.emplace_back((*page << order_) + i);
    }
    MaybeFrame single() {
        const auto page = colours_.take();
        return page ? MaybeFrame(Frame(*page)) : MaybeFrame();
    }
    MaybeFrame fragment() {
        if (at_block_ == fragments_->size()) return std::nullopt;
        const FreeBlock& block = (*fragments_)[at_block_];
        const Frame frame(block.first.raw() + in_block_);
        if (++in_block_ == 1u << block.order) {
            ++at_block_;
            in_block_ = 0;
        }
        return frame;
    }
    static Frame last_of(std::vector<Frame>& frames) {
        const Frame frame = frames.back();
        frames.pop_back();
        return frame;
    }

    Colours colours_;
    unsigned order_;
    Blocks fragments_;
    std::size_t at_block_ = 0;  // the next frame of fragments_
    std::uint32_t in_block_ = 0;
    std::vector<std::vector<Frame>> held_;  // [rank] next one last
};

class ColouredPlacement : public Placement {
  public:
    ColouredPlacement(const Memory& state, std::uint32_t slots, unsigned order)
        : colours_(free_pages(state, order), state.frames() >> order, slots >> order),
          fragments_(std::make_shared<const std::vector<FreeBlock>>(smaller_blocks(state, order))),
          frames_(state.frames()),
          order_(order) {}
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<ColouredFrames>(colours_, order_, fragments_);
    }
    [[nodiscard]] std::uint32_t frames() const override { return frames_; }
    [[nodiscard]] unsigned page_order() const override { return order_; }

  private:
    static FrameSet free_pages(const Memory& state, unsigned order) {
        FrameSet free(state.frames() >> order, false);
        for (const FreeBlock& block : state.free_blocks()) {
            const std::uint32_t first = block.first.raw() >> order;
            const std::uint32_t pages = block.order >= order ? 1u << (block.order - order) : 0;
            for (std::uint32_t page = first; page < first + pages; ++page) free.add(page);
        }
        return free;
    }
    // Orders blocks as the kernel would use them: the highest zone first, and in it the smallest
    // blocks.
    static std::vector<FreeBlock> smaller_blocks(const Memory& state, unsigned page_order) {
        std::vector<FreeBlock> found;
        for (std::size_t zone = state.zones().size(); zone-- > 0;) {
            for (unsigned order = 0; order < page_order; ++order) {
                for (unsigned type = 0; type < migrate_types; ++type) {
                    const auto of = static_cast<MigrateType>(type);
                    for (const Frame first : state.free_list(zone, order, of)) {
                        found.push_back({first, order, of});
                    }
                }
            }
        }
        return found;
    }

    Colours colours_;
    ColouredFrames::Blocks fragments_;
    std::uint32_t frames_;
    unsigned order_;
};

}  // namespace

std::unique_ptr<Placement> place_by_colour(const Memory& state, std::uint32_t slots,
                                           unsigned page_order) {
    if (slots == 0 || slots % (1u << page_order) != 0) {
        throw std::invalid_argument("slots: " + std::to_string(slots) +
                                    " is not a positive multiple of a page's frames");
    }
    return std::make_unique<ColouredPlacement>(state, slots, page_order);
}

}  // namespace pagelens
