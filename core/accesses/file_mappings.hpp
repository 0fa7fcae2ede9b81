// Maps virtual pages to the pages of the kernel's page cache that they show.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/accesses/intervals.hpp"

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
    // none. Indices are given in the order in which pages are asked for.
    std::uint32_t index_at(std::uint64_t page) {
        const Shown shown = shown_.at(page);
        if (!shown.file) return 0;
        const auto next = static_cast<std::uint32_t>(indices_.size() + 1);
        return indices_.try_emplace(page + shown.distance, next).first->second;
    }

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
};

}  // namespace pagelens
