// A set of a program's pages, a bit each, so that a walk over many pages finds the few it is for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens {

class PageSet {
  public:
    // Has room for so many pages.
    explicit PageSet(std::size_t pages) : words_(pages / 64 + 2) {}

    [[nodiscard]] bool contains(std::uint64_t page) const {
        return (words_[page / 64] >> page % 64 & 1) != 0;
    }
    void add(std::uint64_t page) { words_[page / 64] |= 1ull << page % 64; }
    // Puts the pages [begin, end) in, or takes them out.
    void add(std::uint64_t begin, std::uint64_t end) {
        for_words(begin, end, [](std::uint64_t& word, std::uint64_t bits) { word |= bits; });
    }
    void remove(std::uint64_t begin, std::uint64_t end) {
        for_words(begin, end, [](std::uint64_t& word, std::uint64_t bits) { word &= ~bits; });
    }
    // Returns for the 64 pages from `page` on, of which the set has room for the first at least,
    // whether they are in it, the first in the lowest bit.
    [[nodiscard]] std::uint64_t from(std::uint64_t page) const {
        const std::uint64_t low = words_[page / 64] >> page % 64;
        return page % 64 == 0 ? low : low | words_[page / 64 + 1] << (64 - page % 64);
    }
    // Returns whether all pages of [begin, end) are in the set.
    [[nodiscard]] bool contains_all(std::uint64_t begin, std::uint64_t end) const {
        for (std::uint64_t page = begin; page < end; page += 64) {
            const std::uint64_t wanted = end - page >= 64 ? ~0ull : (1ull << (end - page)) - 1;
            if ((from(page) & wanted) != wanted) return false;
        }
        return true;
    }

  private:
    // Calls visit(word, bits) for the words that the pages [begin, end) lie in.
    template <class Visit>
    void for_words(std::uint64_t begin, std::uint64_t end, Visit&& visit) {
        for (std::uint64_t page = begin; page < end;) {
            const std::uint64_t next = std::min(end, page / 64 * 64 + 64);
            visit(words_[page / 64], ~0ull >> (64 - (next - page)) << page % 64);
            page = next;
        }
    }

    std::vector<std::uint64_t> words_;
};

}  // namespace pagelens
