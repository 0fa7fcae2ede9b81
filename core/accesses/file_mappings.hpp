// Maps virtual pages to the pages of the kernel's page cache that they show.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/accesses/intervals.hpp"
#include "core/accesses/trace_format.hpp"

namespace pagelens {

class FileMappings {
  public:
    // Pages [first, first + count) show the cache's pages `cached`, `cached` + 1, ...
    void map(std::uint64_t first, std::uint64_t count, std::uint64_t cached) {
        shown_.assign(first, first + count, {true, cached - first});
    }
    void unmap(std::uint64_t first, std::uint64_t count) {
        shown_.assign(first, first + count, {});
    }
    void remap(std::uint64_t from, std::uint64_t count, std::uint64_t to) {
        std::vector<std::pair<Range, Shown>> moved;
        shown_.for_each(
            from, from + count, [&](std::uint64_t begin, std::uint64_t end, const Shown& shown) {
                moved.push_back(
                    {{begin - from + to, end - from + to}, {true, shown.distance + from - to}});
            });
        unmap(from, count);
        unmap(to, count);
        for (const auto& [range, shown] : moved) shown_.assign(range.begin, range.end, shown);
    }

    // Returns 1 + the index of the page of the file's cache that `page` shows, or 0 if it shows
    // none. Once it is `written`, it shows its file only where the mapping is shared. Indices are
    // given in the order in which pages are asked for.
    std::uint32_t index_at(std::uint64_t page, bool written = false) {
        const Shown shown = shown_.at(page);
        const std::uint64_t cached = page + shown.distance;
        if (!shown.file || (written && (cached & shared_mapping) == 0)) return 0;
        const auto next = static_cast<std::uint32_t>(pages_.size() + 1);
        const auto [index, is_new] = indices_.try_emplace(cached & ~shared_mapping, next);
        if (is_new) pages_.push_back(index->first);
        return index->second;
    }
    // Returns the pages of the page cache that have an index, in the order of their indices.
    [[nodiscard]] const std::vector<std::uint64_t>& pages() const { return pages_; }

  private:
    struct Range {
        std::uint64_t begin, end;
    };
    struct Shown {
        bool file = false;
        std::uint64_t distance = 0;  // from the virtual page to that of the cache, modulo 2^64
        friend bool operator==(const Shown&, const Shown&) = default;
    };

    Intervals<Shown> shown_;
    std::unordered_map<std::uint64_t, std::uint32_t> indices_;  // of the cache's pages
    std::vector<std::uint64_t> pages_;                          // [index - 1]
};

}  // namespace pagelens
