// Equal set-associative LRU caches of one level (a node's L2s), which ranks in lockstep use one op
// at a time: the same lines of one page of each rank.
//
// A set is a row of 16 entries, one cache line of the host, most recent first. The rows of one set
// of all caches lie side by side, because that is how a batch visits them. An entry is the tag
// + 1, with a flag for dirty and one for *watched* frames: those of the sample, of which alone the
// caller wants to hear. The slow, obvious version is in tests/cpp/reference_caches.hpp.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/machine/huge_array.hpp"

namespace pagelens {

inline constexpr std::uint32_t lru_row = 16;  // most ways
inline constexpr std::uint32_t lru_dirty = 1u << 31;
inline constexpr std::uint32_t lru_watched = 1u << 30;
inline constexpr std::uint32_t lru_tag = lru_watched - 1;

// A page of one rank.
struct RankPage {
    std::uint32_t frame;
    std::uint16_t rank;
    std::uint16_t watched;  // 1 if it is to be heard of, else 0
};

// The result for one line. Lines of a watched page always have one, others if a watched dirty line
// left.
struct LruEvent {
    std::uint32_t page;    // index in the batch
    std::uint16_t line;    // of the page
    std::uint16_t missed;  // 1 or 0
    std::uint32_t victim;  // entry of a watched dirty line that was pushed out; 0: none
};

struct LruBatch {
    std::uint32_t* rows;              // [page set][line][cache][lru_row]
    std::size_t caches;               // in the bank
    unsigned page_set_bits;           // log2 of the page sets
    unsigned ways;                    // 1 to lru_row
    std::span<const RankPage> pages;  // in the order of access
    const std::uint16_t* cache_of;    // [rank]
    std::uint64_t lines;              // not 0
    bool write;
};

// Accesses every page's lines; events go to `events`, which has room for all lines of all pages.
// Returns how many there are. The word before the first row must be readable.
using LruKernel = std::size_t (*)(const LruBatch& batch, LruEvent* events);

LruKernel lru_kernel();  // the fastest on this host
LruKernel lru_kernel(
    std::string_view version);  // "scalar", "avx2", "avx512"; null if it cannot run

class LruBank {
  public:
    // `sets` is a power of two, at least 64; 1 to 16 ways.
    LruBank(std::uint32_t sets, std::uint32_t ways, std::uint32_t caches)
        : page_set_bits_(static_cast<unsigned>(std::countr_zero(sets / 64))),
          ways_(ways),
          caches_(caches),
          rows_(std::size_t{sets} * caches * lru_row + lru_row) {
        assert(std::has_single_bit(sets) && sets >= 64 && ways >= 1 && ways <= lru_row);
    }

    // The same lines of each page, page by page; cache_of[rank] says in which cache. A line that
    // misses is filled without a word. The events stay valid until the next call.
    // Precondition: (frame >> page set bits) + 1 < 2^30.
    std::span<const LruEvent> access(std::span<const RankPage> pages, const std::uint16_t* cache_of,
                                     std::uint64_t lines, bool write) {
        const std::size_t most = pages.size() * static_cast<unsigned>(std::popcount(lines));
        if (events_.size() < most) events_.resize(most);
        const LruBatch batch{first_row(), caches_,  page_set_bits_, ways_,
                             pages,       cache_of, lines,          write};
        return {events_.data(), kernel_(batch, events_.data())};
    }

    // Returns the frame of the line that an event's `victim` names; `frame` is that of the page
    // which pushed it out.
    [[nodiscard]] std::uint32_t victim_frame(std::uint32_t frame, std::uint32_t victim) const {
        return ((victim & lru_tag) - 1) << page_set_bits_ | (frame & ((1u << page_set_bits_) - 1));
    }

    // Makes the sets of line `to` of all pages in a page set what those of line `from` are.
    void copy_line(std::size_t page_set, unsigned from, unsigned to);
    [[nodiscard]] std::size_t page_sets() const { return std::size_t{1} << page_set_bits_; }
    // Takes a line out of a cache, if it is there; returns true if it was dirty.
    bool remove(std::uint32_t cache, std::uint32_t frame, unsigned line);

  private:
    // Rows begin one row in: the AVX2 kernel reads the word before a row.
    std::uint32_t* first_row() { return rows_.data() + lru_row; }

    unsigned page_set_bits_, ways_;
    std::size_t caches_;
    HugeVector<std::uint32_t> rows_;
    std::vector<LruEvent> events_;
    LruKernel kernel_ = lru_kernel();
};

}  // namespace pagelens
