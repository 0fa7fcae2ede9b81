// Which instructions write pages first: as many as samples of the run's instructions tell.
//
// Nothing in a trace says which instruction made an access, except in samples. But a page that is
// first written while its thread is sampled is first written by the first store to it in the
// sample. So each page counted here has the instruction that wrote it first, and the sampled pages
// of an array stand for all of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/accesses/object_map.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/address/units.hpp"

namespace pagelens {

struct FirstWriter {
    std::uint64_t object;
    std::uint64_t block;        // id of its CodeBlockDefinition
    std::uint64_t instruction;  // index in that block
    std::uint64_t pages;        // of the object that it is seen to write first
};

class FirstWriters {
  public:
    // The samples must outlive it.
    FirstWriters(std::span<const InstructionSample> samples, std::size_t threads)
        : of_thread_(threads) {
        for (const InstructionSample& sample : samples)
            if (sample.thread < threads) of_thread_[sample.thread].push_back(&sample);
        for (auto& own : of_thread_)
            std::ranges::stable_sort(own, {}, &InstructionSample::first_instruction);
    }

    // The thread writes the page (number) first, between these counts of its instructions.
    void write(unsigned thread, std::uint64_t from, std::uint64_t until, std::uint64_t page,
               ObjectIndex object) {
        const auto& own = of_thread_[thread];
        auto sample = std::ranges::partition_point(own, [from](const InstructionSample* each) {
            return each->first_instruction + sample_instructions <= from;
        });
        for (; sample != own.end() && (*sample)->first_instruction < until; ++sample)
            if (count(**sample, page, object)) return;
    }

    // By object, and of each object by block and instruction.
    [[nodiscard]] std::vector<FirstWriter> found() const {
        std::vector<FirstWriter> result;
        for (const auto& [key, pages] : pages_) result.push_back({key[0], key[1], key[2], pages});
        return result;
    }

  private:
    bool count(const InstructionSample& sample, std::uint64_t page, ObjectIndex object) {
        const auto store = std::ranges::find_if(sample.accesses, [page](const SampledAccess& of) {
            return of.store && of.line / lines_per_page == page;
        });
        if (store == sample.accesses.end() || store->block >= sample.blocks.size()) return false;
        const std::uint64_t block = sample.blocks[store->block];
        if (block == 0) return false;
        ++pages_[{object, block, store->instruction}];
        return true;
    }

    std::vector<std::vector<const InstructionSample*>> of_thread_;  // by their first instructions
    std::map<std::array<std::uint64_t, 3>, std::uint64_t> pages_;   // as FirstWriter has them
};

}  // namespace pagelens
