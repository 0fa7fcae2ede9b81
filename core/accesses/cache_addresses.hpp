// The places of a program's lines for the private caches, before any page has a frame.
#pragma once

#include <cstdint>

#include "core/accesses/page_map.hpp"
#include "core/address/units.hpp"

namespace pagelens::detail {

// Line addresses as the private caches see them. Of a page of 2^page_bits bytes the caches may
// index all bits, so the 4 KiB pages in it keep their places; the large pages themselves are
// numbered in the order of first use, which no set index sees.
class CacheAddresses {
  public:
    explicit CacheAddresses(unsigned page_bits) : small_bits_(page_bits - pagelens::page_bits) {}

    // Returns the first line of a page that was not seen before.
    std::uint64_t add(std::uint32_t page, std::uint64_t number) {
        if (small_bits_ == 0) return std::uint64_t{page} * lines_per_page;
        const std::uint64_t large = number >> small_bits_;
        std::uint32_t index = large_pages_.find(large);
        if (index == PageMap::absent) {
            index = large_count_++;
            large_pages_.set(large, index);
        }
        const std::uint64_t low = number & ((std::uint64_t{1} << small_bits_) - 1);
        const std::uint64_t place = (std::uint64_t{index} << small_bits_) | low;
        pages_.set(place, page);
        return place * lines_per_page;
    }

    std::uint32_t page_of(std::uint64_t line) {
        const std::uint64_t place = line / lines_per_page;
        return small_bits_ == 0 ? static_cast<std::uint32_t>(place) : pages_.find(place);
    }

  private:
    unsigned small_bits_;
    std::uint32_t large_count_ = 0;
    PageMap large_pages_;
    PageMap pages_;  // place -> page
};

}  // namespace pagelens::detail
