// The pages that a thread has read and written since they last had no frame, as two bits per page.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace pagelens {

class PageStates {
  public:
    static constexpr unsigned read = 1, written = 2;

    // Returns the bits of `page`.
    [[nodiscard]] unsigned get(std::uint64_t page) {
        return static_cast<unsigned>(word(page) >> shift(page)) & 3;
    }
    void add(std::uint64_t page, unsigned bits) {
        word(page) |= std::uint64_t{bits} << shift(page);
    }

    // Pages [first, first + count) have no frames any more.
    void forget(std::uint64_t first, std::uint64_t count) {
        for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
            const std::uint64_t begin = chunk->first * chunk_pages;
            if (begin >= first && begin + chunk_pages <= first + count) {
                chunk = chunks_.erase(chunk);
                continue;
            }
            if (begin < first + count && first < begin + chunk_pages) {
                for (std::uint64_t page = begin; page < begin + chunk_pages; ++page) {
                    if (page - first < count) {
                        chunk->second[page / 32 % words] &= ~(std::uint64_t{3} << shift(page));
                    }
                }
            }
            ++chunk;
        }
        last_ = nullptr;
    }

  private:
    static constexpr std::uint64_t chunk_pages = 512;
    static constexpr std::size_t words = chunk_pages / 32;
    using Chunk = std::array<std::uint64_t, words>;

    static unsigned shift(std::uint64_t page) { return static_cast<unsigned>(page % 32) * 2; }

    std::uint64_t& word(std::uint64_t page) {
        const std::uint64_t number = page / chunk_pages;
        if (last_ == nullptr || number != last_number_) {
            last_ = &chunks_[number];  // nodes stay where they are
            last_number_ = number;
        }
        return (*last_)[page / 32 % words];
    }

    std::unordered_map<std::uint64_t, Chunk> chunks_;
    Chunk* last_ = nullptr;
    std::uint64_t last_number_ = 0;
};

}  // namespace pagelens
