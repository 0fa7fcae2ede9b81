// The pages of a kernel whose pages are larger than 4 KiB: which of them each rank has, and how
// many 4 KiB pages of each are in use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/address/units.hpp"
#include "core/frames/frame_source.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {

class BasePages {
  public:
    static constexpr std::uint32_t none = ~0u;

    // A kernel's page of a rank.
    struct Held {
        std::uint32_t first = none;  // frame
        std::uint32_t users = 0;     // pages of 4 KiB that the rank uses of it
    };
    // A kernel's page of the page cache, which keeps it.
    struct Cached {
        std::uint32_t first = none;  // frame
        std::uint32_t parts = 0;     // a bit for each of its pages of 4 KiB that has been shown
    };

    BasePages(std::span<const VirtualPage> pages, unsigned order, std::uint32_t ranks);

    [[nodiscard]] unsigned order() const { return order_; }
    [[nodiscard]] std::uint32_t frames() const { return 1u << order_; }
    Held& of_rank(std::uint32_t page, std::uint32_t rank) {
        return of_rank_[std::size_t{number_[page]} * ranks_ + rank];
    }
    // The page of the page cache that was shown last where `page` lies.
    Cached& of_cache(std::uint32_t page) { return of_cache_[number_[page]]; }
    // Returns how many frames the page lies behind the beginning of the kernel's page.
    [[nodiscard]] std::uint32_t offset(std::uint32_t page) const { return offset_[page]; }

  private:
    unsigned order_;
    std::uint32_t ranks_;
    HugeVector<std::uint32_t> number_;  // [page] of the kernel's page, by address
    HugeVector<std::uint8_t> offset_;   // [page]
    std::vector<Held> of_rank_;         // [kernel's page][rank]
    std::vector<Cached> of_cache_;      // [kernel's page]
};

}  // namespace pagelens
