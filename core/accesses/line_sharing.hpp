// Counts how often threads take a line from each other's caches, as coherent caches make them do.
//
// A thread that reads a line which another one has written since gets it from the writer, and a
// thread that writes a line takes it from all that have it. What counts are accesses that would
// have hit the thread's own first cache if no other thread were there: all others are counted as
// fetches already.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/address/units.hpp"

namespace pagelens {

// How often thread `to` took a line of the object from thread `from`.
struct TakenLines {
    std::uint32_t phase;
    std::uint16_t object, from, to;
    std::uint64_t line;  // 64 * page + place in the page; no_line: all lines that are taken rarely
    std::uint64_t count;
    static constexpr std::uint64_t no_line = ~std::uint64_t{0};
    friend auto operator<=>(const TakenLines&, const TakenLines&) = default;
};

class LineSharing {
  public:
    // Lines that are taken less often in a phase are stated together.
    static constexpr std::uint64_t fewest = 64;

    explicit LineSharing(unsigned threads) : words_((threads + 63) / 64) {}

    // A thread reads or writes a line. Returns the thread that it takes the line from, if any.
    std::optional<unsigned> use(std::uint32_t page, unsigned index, unsigned thread, bool store) {
        if (page >= pages_.size()) [[unlikely]]
            pages_.resize(std::size_t{page} + 1);
        if (pages_[page].use(index, thread, store)) return std::nullopt;
        Lines& of = lines_of(pages_[page]);
        const std::span<std::uint64_t> holders(of.holders.data() + std::size_t{index} * words_,
                                               words_);
        std::uint16_t& writer = of.writer[index];
        const std::uint64_t bit = std::uint64_t{1} << thread % 64;
        std::uint64_t& own = holders[thread / 64];
        std::optional<unsigned> from;
        if (!store) {
            if ((own & bit) == 0 && writer != nobody && writer != thread) from = writer;
            own |= bit;
            return from;
        }
        own &= ~bit;
        if (const auto other = first_of(holders))
            from = writer != nobody && writer != thread ? writer : *other;
        std::ranges::fill(holders, 0);
        own = bit;
        writer = static_cast<std::uint16_t>(thread);
        return from;
    }

    // No cache has the line any more.
    void drop(std::uint32_t page, unsigned index) {
        if (page >= pages_.size()) return;
        pages_[page].drop(index);
        if (!pages_[page].lines) return;
        Lines& of = *pages_[page].lines;
        std::fill_n(of.holders.begin() + std::size_t{index} * words_, words_, 0);
        of.writer[index] = nobody;
    }

    void count(const TakenLines& one) {
        Key key{one.line, std::uint64_t{one.object} << 48 | std::uint64_t{one.phase} << 32 |
                              std::uint64_t{one.from} << 16 | one.to};
        counts_[key] += 1;
    }

    // Returns what was counted, in the order of TakenLines. `page_of` gives the pages' new numbers.
    [[nodiscard]] std::vector<TakenLines> counted(std::span<const std::uint32_t> page_of) const {
        std::unordered_map<std::uint64_t, std::uint64_t> of_line;  // phase and line
        const auto known = [](const Key& key) {
            return (key.rest >> 32 & 0xffff) << 48 ^ key.line;
        };
        for (const auto& [key, count] : counts_) of_line[known(key)] += count;
        std::vector<TakenLines> all;
        for (const auto& [key, count] : counts_) {
            const auto page = page_of[key.line / lines_per_page];
            const bool often = of_line[known(key)] >= fewest;
            all.push_back(
                {static_cast<std::uint32_t>(key.rest >> 32 & 0xffff),
                 static_cast<std::uint16_t>(key.rest >> 48),
                 static_cast<std::uint16_t>(key.rest >> 16), static_cast<std::uint16_t>(key.rest),
                 often ? page * lines_per_page + key.line % lines_per_page : TakenLines::no_line,
                 count});
        }
        std::ranges::sort(all);
        return merged(all);
    }

  private:
    static constexpr std::uint16_t nobody = 0xffff;

    struct Lines {
        std::vector<std::uint64_t> holders;  // [line * words_ + word] a bit for each thread
        std::array<std::uint16_t, lines_per_page> writer;
    };
    // Most pages are used by one thread alone, and need no more than this.
    struct Page {
        std::uint64_t held = 0, written = 0;  // by that thread, a bit for each line
        unsigned sole = 0;                    // who it is
        std::unique_ptr<Lines> lines;         // once another thread came, and instead

        // Returns false if there is another thread.
        bool use(unsigned index, unsigned thread, bool store) {
            if (lines || (held != 0 && sole != thread)) return false;
            sole = thread;
            held |= std::uint64_t{1} << index;
            written |= std::uint64_t{store} << index;
            return true;
        }
        void drop(unsigned index) {
            held &= ~(std::uint64_t{1} << index);
            written &= ~(std::uint64_t{1} << index);
        }
    };
    struct Key {
        std::uint64_t line, rest;  // object, phase, from, to
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const {
            return key.line * 0x9e3779b97f4a7c15u ^ std::rotl(key.rest, 17);
        }
    };

    Lines& lines_of(Page& page) {
        if (page.lines) return *page.lines;
        page.lines = std::make_unique<Lines>();
        page.lines->holders.resize(words_ * lines_per_page);
        page.lines->writer.fill(nobody);
        for (unsigned i = 0; i < lines_per_page; ++i) {
            page.lines->holders[i * words_ + page.sole / 64] |= (page.held >> i & 1)
                                                                << page.sole % 64;
            if (page.written >> i & 1)
                page.lines->writer[i] = static_cast<std::uint16_t>(page.sole);
        }
        return *page.lines;
    }

    static std::optional<unsigned> first_of(std::span<const std::uint64_t> holders) {
        for (std::size_t word = 0; word < holders.size(); ++word)
            if (holders[word] != 0)
                return static_cast<unsigned>(64 * word) +
                       static_cast<unsigned>(std::countr_zero(holders[word]));
        return std::nullopt;
    }

    static std::vector<TakenLines> merged(std::span<const TakenLines> sorted) {
        std::vector<TakenLines> result;
        for (const TakenLines& one : sorted) {
            TakenLines as_last = one;
            if (!result.empty()) as_last.count = result.back().count;
            if (!result.empty() && as_last == result.back())
                result.back().count += one.count;
            else
                result.push_back(one);
        }
        return result;
    }

    std::size_t words_;
    std::vector<Page> pages_;
    std::unordered_map<Key, std::uint64_t, Hash> counts_;
};

}  // namespace pagelens
