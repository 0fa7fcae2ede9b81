// The kernel's allocator as a source of frames, and the pool of 1 GiB pages beside it.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>
#include <vector>

#include "core/frames/placement.hpp"

namespace pagelens {
namespace {

constexpr std::uint32_t gigabyte_frames = 1u << gigantic_order;
constexpr std::size_t gigabytes_left = 4;  // for the system and for small mappings

class KernelFrames : public FrameSource {
  public:
    // `binding`: sets of NUMA nodes (bit masks), each used until it is full.
    // `gigantic`: pages of 1 GiB that were set aside at boot, the next one last. `pooled`: 2 MiB
    // pages come from the hugetlb pool if there is one.
    KernelFrames(const NodeState& state, std::vector<Frame> gigantic,
                 std::vector<std::uint64_t> binding, bool pooled)
        : node_(state), binding_(std::move(binding)), gigantic_(std::move(gigantic)) {
        for (const Frame first : gigantic_)
            node_.reserve(first, Frame(first.raw() + gigabyte_frames));
        for (unsigned numa = 0; pooled && numa < node_.memory().numas(); ++numa)
            pooled_ = pooled_ || !node_.huge_pool(numa).empty();
    }

    MaybeFrame alloc(const Request& request) override {
        if (request.order == gigantic_order) return last_of(gigantic_);
        if (request.order == huge_order && pooled_) return pooled(request);
        Request own{.cpu = cpu_of(request),
                    .order = request.order,
                    .type = request.type,
                    .home = request.home};
        for (; bound_ < binding_.size(); ++bound_) {
            own.numas = binding_[bound_];
            if (const auto frame = node_.alloc(own)) return frame;
            if (own.order > small_order) return std::nullopt;
        }
        own.numas = request.numas;
        if (request.sparing) return node_.memory().alloc(own, Memory::Mark::low);
        return node_.alloc(own);
    }

    // A single page, which may fill the CPU's list, and then a run of what lies there.
    std::size_t alloc_each(Request request, std::span<const std::uint32_t> pages,
                           std::span<Frame> frames) override {
        Memory& memory = node_.memory();
        std::size_t given = 0;
        while (given < pages.size()) {
            request.page = pages[given];
            const MaybeFrame frame = alloc(request);
            if (!frame) break;
            frames[given++] = *frame;
            if (given == pages.size() || bound_ < binding_.size() || request.sparing) continue;
            const Request own{.cpu = cpu_of(request),
                              .type = request.type,
                              .numas = request.numas,
                              .home = request.home};
            const auto most = static_cast<std::uint32_t>(pages.size() - given);
            memory.map().for_frames(memory.alloc_listed(own, Memory::Mark::low, most),
                                    [&](Frame listed) { frames[given++] = listed; });
        }
        return given;
    }

    void free(const Request& request, Frame frame) override {
        if (request.order == gigantic_order) return gigantic_.push_back(frame);
        if (request.order == huge_order && pooled_) {
            const Memory& memory = node_.memory();
            return node_.huge_pool(memory.numa_of(frame)).push_back(frame);
        }
        node_.free(cpu_of(request), frame, request.order);
    }

    std::uint32_t make_room(unsigned numa, std::uint64_t slow) override {
        return node_.make_room(numa, slow);
    }
    [[nodiscard]] std::uint32_t spare_frames(unsigned numa) const override {
        const std::int64_t above = node_.memory().above_promotion(numa);
        return static_cast<std::uint32_t>(std::max<std::int64_t>(above, 0));
    }

  private:
    // The pool of the nearest node that has a page (dequeue_hugetlb_folio_nodemask(),
    // mm/hugetlb.c).
    MaybeFrame pooled(Request request) {
        request.cpu = cpu_of(request);
        const Memory& memory = node_.memory();
        for (std::size_t bound = 0; bound <= binding_.size(); ++bound) {
            const std::uint64_t numas = bound < binding_.size() ? binding_[bound] : request.pools;
            for (const std::uint8_t zone : memory.zonelist(memory.home_of(request))) {
                const unsigned numa = memory.zones()[zone].spec().numa;
                if ((numas >> numa & 1) == 0) continue;
                if (const MaybeFrame frame = last_of(node_.huge_pool(numa))) return frame;
            }
        }
        return std::nullopt;
    }
    [[nodiscard]] unsigned cpu_of(const Request& request) const {
        const unsigned cpus = node_.memory().cpus();
        return request.cpu < cpus ? request.cpu : request.cpu % cpus;
    }
    static MaybeFrame last_of(std::vector<Frame>& pool) {
        if (pool.empty()) return std::nullopt;
        const Frame frame = pool.back();
        pool.pop_back();
        return frame;
    }

    NodeState node_;
    std::vector<std::uint64_t> binding_;
    std::size_t bound_ = 0;        // the set in use
    std::vector<Frame> gigantic_;  // free 1 GiB pages, last freed on top
    bool pooled_ = false;
};

class KernelPlacement : public Placement {
  public:
    KernelPlacement(NodeState state, unsigned page_order, bool bound)
        : state_(std::move(state)), page_order_(page_order) {
        if (bound) bind();
    }

    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape& job) const override {
        std::vector<Frame> gigantic;
        if (page_order_ == gigantic_order) {
            gigantic = gigabytes_at_boot(state_.memory());
            if (gigantic.size() > job.gigabyte_blocks) gigantic.resize(job.gigabyte_blocks);
            std::reverse(gigantic.begin(), gigantic.end());
        }
        return std::make_unique<KernelFrames>(state_, std::move(gigantic), binding_,
                                              page_order_ == huge_order);
    }
    [[nodiscard]] std::uint32_t frames() const override { return state_.memory().frames(); }
    [[nodiscard]] unsigned page_order() const override { return page_order_; }
    // As with transparent_hugepage=madvise, which is most distributions' default.
    [[nodiscard]] bool heeds_advice() const override { return page_order_ == small_order; }

  private:
    // Binds to the NUMA nodes one by one, the one with most free memory first.
    void bind() {
        std::vector<std::uint64_t> free(state_.memory().numas());
        for (const Zone& zone : state_.memory().zones())
            free[zone.spec().numa] += zone.free_frames();
        std::vector<unsigned> order(free.size());
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(),
                         [&](unsigned a, unsigned b) { return free[a] > free[b]; });
        for (const unsigned numa : order) binding_.push_back(1ull << numa);
    }

    NodeState state_;
    unsigned page_order_;
    std::vector<std::uint64_t> binding_;
};

}  // namespace

std::vector<Frame> gigabytes_at_boot(const Memory& memory) {
    const Memmap& map = memory.map();
    std::vector<Frame> found;
    for (std::uint32_t begin = 0; begin + gigabyte_frames <= memory.frames();
         begin += gigabyte_frames) {
        const Unit end = map.unit_of(Frame(begin + gigabyte_frames));
        Unit unit = map.unit_of(Frame(begin));
        while (unit < end && !map.is_hole(unit))
            unit += map.is_free(unit) ? 1u << map.free_level(unit) : 1;
        if (unit >= end) found.emplace_back(begin);
    }
    found.resize(found.size() - std::min(found.size(), gigabytes_left));
    return found;
}

std::unique_ptr<Placement> place_by_kernel(NodeState state, unsigned page_order) {
    const unsigned base = state.memory().page_order();
    assert(page_order == small_order || page_order == huge_order);
    const unsigned order = page_order > base ? page_order - base : small_order;
    auto placement = std::make_unique<KernelPlacement>(std::move(state), order, false);
    if (base == small_order) return placement;
    return place_in_larger_pages(std::move(placement), base);
}

std::unique_ptr<Placement> place_by_numa_node(NodeState state) {
    return std::make_unique<KernelPlacement>(std::move(state), small_order, true);
}

std::unique_ptr<Placement> place_in_gigabytes(NodeState state) {
    return std::make_unique<KernelPlacement>(std::move(state), gigantic_order, false);
}

}  // namespace pagelens
