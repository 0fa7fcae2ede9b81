// What code writes the pages of an object first: the loop that initialises it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/accesses/object_map.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_writer.hpp"

namespace pagelens {

struct FirstWriter {
    std::uint64_t object;
    std::uint64_t writer;  // id of its WriterDefinition
    std::uint64_t pages;   // of the object that it writes first
};

class FirstWriters {
  public:
    // The runs must outlive it.
    FirstWriters(std::span<const FirstWrites> runs, std::size_t threads) : of_thread_(threads) {
        for (const FirstWrites& run : runs)
            if (run.thread < threads) of_thread_[run.thread].push_back(&run);
    }

    // A run that begins so much later is of another time: traces state counts less far apart.
    static constexpr std::uint64_t grain = 2 * stamp_grain;

    // The thread writes the page (number) first, after this count of its instructions: the last one
    // that the trace has.
    void write(unsigned thread, std::uint64_t count, std::uint64_t page, ObjectIndex object) {
        const auto& own = of_thread_[thread];
        auto run = std::ranges::partition_point(
            own, [count](const FirstWrites* each) { return each->last_instruction < count; });
        for (; run != own.end() && (*run)->first_instruction < count + grain; ++run) {
            if (page - (*run)->page >= (*run)->pages) continue;
            ++pages_[{object, (*run)->writer}];
            return;
        }
    }

    // By object, and of each object by writer.
    [[nodiscard]] std::vector<FirstWriter> found() const {
        std::vector<FirstWriter> result;
        for (const auto& [key, pages] : pages_) result.push_back({key[0], key[1], pages});
        return result;
    }

  private:
    std::vector<std::vector<const FirstWrites*>> of_thread_;       // in the order of time
    std::map<std::array<std::uint64_t, 2>, std::uint64_t> pages_;  // as FirstWriter has them
};

}  // namespace pagelens
