#include "core/replay/base_pages.hpp"

#include <unordered_map>

namespace pagelens {

BasePages::BasePages(std::span<const VirtualPage> pages, unsigned order, std::uint32_t ranks)
    : order_(order), ranks_(ranks) {
    number_.reserve(pages.size());
    offset_.reserve(pages.size());
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    for (const VirtualPage page : pages) {
        const auto next = static_cast<std::uint32_t>(numbers.size());
        number_.push_back(numbers.try_emplace(page.raw() >> order, next).first->second);
        offset_.push_back(static_cast<std::uint8_t>(page.raw() & (frames() - 1)));
    }
    of_rank_.resize(numbers.size() * ranks);
    of_cache_.resize(numbers.size());
}

}  // namespace pagelens
