// The page cache against a list from which pages are taken one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/frames/page_cache.hpp"

using namespace pagelens;

namespace {

class Drawn {
  public:
    Drawn(unsigned numas, std::uint32_t seed)
        : memory_(linux_layout(frames, numas, numas), 1),
          engine_(seed),
          random_(seed, 0, 0, Stream::history) {}

    void step() {
        const std::uint32_t count = below(120);
        switch (below(6)) {
            case 0:
            case 1:
                return add(count);
            case 2:
            case 3:
                return reclaim(count, 1 + below((1u << memory_.numas()) - 1));
            case 4:
                return reclaim(count, ~std::uint64_t{0});
            default:
                return below(8) == 0 ? pin(count / 8) : shrink(slow_.size() - below(9));
        }
    }

    // Every page that left is free, and no other one.
    void check() {
        memory_.drain();
        REQUIRE(cache_.pages() == slow_.size());
        std::vector<bool> is_free(frames);
        for (const FreeBlock& block : memory_.free_blocks())
            std::fill_n(is_free.begin() + block.first.raw(), 1u << block.order, true);
        REQUIRE(std::ranges::none_of(slow_, [&](Frame page) { return is_free[page.raw()]; }));
        REQUIRE(memory_.free_frames() + slow_.size() + pinned_ == frames);
    }

  private:
    static constexpr std::uint32_t frames = 1 << 14;

    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }

    void add(std::uint32_t count) {
        const std::uint32_t cpu = below(memory_.numas());
        for (; count > 0; --count) {
            const auto page = memory_.alloc({cpu, small_order}, Memory::Mark::none);
            if (!page) return;
            cache_.add(*page);
            slow_.push_back(*page);
        }
    }

    void reclaim(std::size_t count, std::uint64_t numas) {
        std::size_t freed = 0;
        for (std::size_t i = 0; i < slow_.size() && freed < count;) {
            const unsigned numa = memory_.zone_of(memory_.map().unit_of(slow_[i])).spec().numa;
            if ((numas >> numa & 1) == 0) {
                ++i;
                continue;
            }
            slow_.erase(slow_.begin() + static_cast<std::ptrdiff_t>(i));
            ++freed;
        }
        CHECK(cache_.reclaim(memory_, 0, count, numas) == freed);
    }

    void pin(std::size_t count) {
        Random random = random_;
        cache_.pin(memory_, count, random_);
        for (; count > 0 && !slow_.empty(); --count) {
            std::swap(slow_[0], slow_[random.below(static_cast<std::uint32_t>(slow_.size()))]);
            slow_.erase(slow_.begin());
            ++pinned_;
        }
    }

    void shrink(std::size_t kept) {
        Random random = random_;
        cache_.shrink(memory_, 0, kept, random_);
        while (slow_.size() > kept) {
            std::swap(slow_[random.below(static_cast<std::uint32_t>(slow_.size()))], slow_.back());
            slow_.pop_back();
        }
    }

    Memory memory_;
    PageCache cache_;
    std::mt19937 engine_;
    Random random_;
    std::vector<Frame> slow_;  // oldest first
    std::size_t pinned_ = 0;
};

}  // namespace

TEST_CASE("the page cache loses the pages that a slow list loses") {
    for (const unsigned numas : {1u, 2u, 4u}) {
        for (std::uint32_t seed = 0; seed < 10; ++seed) {
            CAPTURE(numas);
            CAPTURE(seed);
            Drawn drawn(numas, seed);
            for (int step = 0; step < 100; ++step) {
                drawn.step();
                if (step % 10 == 9) drawn.check();
            }
        }
    }
}
