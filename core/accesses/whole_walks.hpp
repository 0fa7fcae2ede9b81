// Declared loops whose every sweep takes each thread once, in order, through its part of whole
// arrays, all of them different, and that give nothing back. When a page is used follows from its
// number.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pagelens {

class SweepProgram;

class WholeWalks {
  public:
    // Returns nothing if the program has other loops.
    static std::optional<WholeWalks> of(const SweepProgram& program);

    // Returns the turns of the shortest sweep, the most turns from a page of a way to its next, and
    // the streams of the sweep that has most.
    [[nodiscard]] std::uint64_t fewest_turns() const { return fewest_turns_; }
    [[nodiscard]] std::uint64_t most_turns_a_page() const { return most_turns_a_page_; }
    [[nodiscard]] unsigned most_streams() const { return most_streams_; }

    // Where a page lies: page `at` of the `pages` of a thread's part of an array.
    struct Place {
        unsigned array, thread;
        std::uint64_t at, pages;
    };
    [[nodiscard]] Place place_of(std::uint32_t page) const;
    // What a sweep does to a page: the way that comes to it in a turn, and leaves it in a later
    // one.
    struct Visit {
        std::uint64_t turn, left;
        std::uint64_t way;  // ways are numbered thread by thread and stream by stream
        bool stores;        // without a fetch
        bool writes_back;   // when it leaves
    };
    // Returns nothing if the sweep does not walk through the array.
    [[nodiscard]] std::optional<Visit> visit(std::size_t sweep, const Place& place) const;
    // Returns whether a sweep is the first that maps the pages of an array.
    [[nodiscard]] bool maps(std::size_t sweep, unsigned array) const {
        return mapped_by_[array] == sweep;
    }

  private:
    static constexpr unsigned no_stream = ~0u;
    struct OfSweep {
        std::uint64_t turns;
        std::uint64_t streams;
        struct OfArray {
            unsigned stream = no_stream;
            bool stores = false, writes_back = false;
        };
        std::vector<OfArray> arrays;  // [array]
    };

    std::uint64_t threads_ = 0;
    std::vector<std::uint64_t> first_pages_;  // [array], and the end of the last one
    std::vector<std::size_t> mapped_by_;      // [array]
    std::vector<OfSweep> sweeps_;
    std::uint64_t fewest_turns_ = ~0ull, most_turns_a_page_ = 1;
    unsigned most_streams_ = 0;
};

}  // namespace pagelens
