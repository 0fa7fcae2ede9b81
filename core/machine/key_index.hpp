// Finds the way of a fully associative array that holds a key. Ways are chained by the keys'
// hashes, so a search meets a way or two, however many there are. Most searches of such arrays
// miss, and then usually find an empty chain.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

namespace pagelens {

class KeyIndex {
  public:
    static constexpr std::uint32_t nowhere = 0xffff;
    static constexpr std::uint32_t most_ways = 1u << 15;

    // An index with 0 ways is empty.
    explicit KeyIndex(std::uint32_t ways)
        : shift_(ways == 0 ? 0 : 64 - bits_of(ways)),
          heads_(ways == 0 ? 0 : empty() + 1, static_cast<std::uint16_t>(nowhere)),
          links_(ways) {
        assert(ways <= most_ways);
        for (std::uint32_t way = 0; way < ways; ++way) push(way, empty());
    }

    [[nodiscard]] bool exists() const { return shift_ != 0; }

    // The highest bits of the hash are those to use.
    static constexpr std::uint64_t hash(std::uint64_t key) {
        return key * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: Fibonacci hash
    }

    // Returns the way whose entry of `keys` is `key`, or nowhere.
    [[nodiscard]] std::uint32_t find(std::uint64_t key, const std::uint64_t* keys) const {
        std::uint32_t way = heads_[chain(key)];
        while (way != nowhere && keys[way] != key) way = links_[way].next;
        return way;
    }
    // Notes that `way` holds `key` now, and not what it did.
    void put(std::uint32_t way, std::uint64_t key) {
        take_out(way);
        push(way, chain(key));
    }
    // Notes that `way` holds nothing.
    void clear(std::uint32_t way) {
        take_out(way);
        push(way, empty());
    }
    [[nodiscard]] bool holds_a_key(std::uint32_t way) const { return links_[way].chain != empty(); }

  private:
    // Returns the bits of the number of chains, at most 15. Usual arrays have 16 to 32 chains per
    // way, so few chains hold two.
    static unsigned bits_of(std::uint32_t ways) {
        return std::min(static_cast<unsigned>(std::bit_width(ways)) + 4, 15u);
    }

    struct Link {
        std::uint16_t next, chain;
    };

    [[nodiscard]] std::uint32_t chain(std::uint64_t key) const {
        return static_cast<std::uint32_t>(hash(key) >> shift_);
    }
    // Returns the chain of the ways that hold nothing, behind all others.
    [[nodiscard]] std::uint32_t empty() const { return 1u << (64 - shift_); }

    void push(std::uint32_t way, std::uint32_t chain) {
        links_[way].next = heads_[chain];
        links_[way].chain = static_cast<std::uint16_t>(chain);
        heads_[chain] = static_cast<std::uint16_t>(way);
    }
    void take_out(std::uint32_t way) {
        std::uint16_t* at = &heads_[links_[way].chain];
        while (*at != way) at = &links_[*at].next;
        *at = links_[way].next;
    }

    unsigned shift_;
    std::vector<std::uint16_t> heads_;  // [chain] its first way
    std::vector<Link> links_;           // [way]
};

}  // namespace pagelens
