// Memory put between a program's large blocks, as STREAM's OFFSET or an allocator that pads would:
// then arrays that are swept together begin in other banks and sets. Pages keep their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/address/units.hpp"

namespace pagelens {

class Padding {
  public:
    Padding() = default;
    // Puts `pages` more pages before each of `before`. Throws std::invalid_argument unless these
    // ascend.
    Padding(std::vector<VirtualPage> before, std::uint64_t pages)
        : before_(std::move(before)), pages_(pages) {
        if (!std::ranges::is_sorted(before_))
            throw std::invalid_argument("the pages that padding comes before do not ascend");
    }

    // Returns where a page then lies.
    [[nodiscard]] VirtualPage operator()(VirtualPage page) const {
        const auto passed = std::ranges::upper_bound(before_, page) - before_.begin();
        return VirtualPage(page.raw() + static_cast<std::uint64_t>(passed) * pages_);
    }

  private:
    std::vector<VirtualPage> before_;
    std::uint64_t pages_ = 0;
};

}  // namespace pagelens
