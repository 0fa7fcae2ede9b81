// The blocks of instructions that QEMU has translated, by number: what was executed in a sample is
// told by these numbers, and the instructions themselves are written to the trace once.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/accesses/trace_format.hpp"

namespace pagelens {

class CodeBlocks {
  public:
    // The number of the block of these instructions, from 1 on. A block that is translated again
    // keeps its number. From any thread.
    std::uint32_t number(std::uint64_t address, std::string bytes) {
        const std::uint64_t key = std::hash<std::string>{}(bytes) * 31 + address;
        const std::lock_guard lock(mutex_);
        const auto [place, is_new] = numbers_.try_emplace(key, blocks_.size() + 1);
        if (is_new) blocks_.push_back({place->second, address, std::move(bytes)});
        return static_cast<std::uint32_t>(place->second);
    }

    // Calls `define(CodeBlockDefinition)` for those of `numbers` that it was not called for before.
    template <typename Define>
    void define_new(std::span<const std::uint64_t> numbers, Define define) {
        const std::lock_guard lock(mutex_);
        defined_.resize(blocks_.size(), false);
        for (const std::uint64_t number : numbers) {
            if (number == 0 || defined_[number - 1]) continue;
            defined_[number - 1] = true;
            define(blocks_[number - 1]);
        }
    }

    // Call this in a forked child, which writes a trace of its own.
    void forget_definitions() { defined_.clear(); }
    // Around a fork (Tracer::hold_locks()).
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::uint64_t> numbers_;  // by hash of address and bytes
    std::vector<CodeBlockDefinition> blocks_;
    std::vector<bool> defined_;
};

}  // namespace pagelens
