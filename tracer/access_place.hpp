// The place of an access in the program, and what its block counts for: the data of its callback.
#pragma once

#include <cstdint>

namespace pagelens {

// One word, so that it is the callback's data itself.
class AccessPlace {
  public:
    // A block has at most so many instructions, and so many accesses. QEMU's have at most 512.
    static constexpr std::uint64_t limit = (1u << 10) - 1;

    constexpr AccessPlace() = default;
    constexpr explicit AccessPlace(std::uint64_t word) : word_(word) {}
    constexpr AccessPlace(std::uint32_t block, std::uint64_t instructions)
        : word_(std::uint64_t{block} << 32 | (instructions & limit) << 20) {}

    constexpr AccessPlace with_later(std::uint64_t later) const {
        return AccessPlace((word_ & ~limit) | (later & limit));
    }
    constexpr AccessPlace at(std::uint64_t instruction) const {
        return AccessPlace((word_ & ~(limit << 10)) | (instruction & limit) << 10);
    }
    constexpr AccessPlace as_early() const { return AccessPlace(word_ | 1u << 30); }
    constexpr AccessPlace as_string() const { return AccessPlace(word_ | 1u << 31); }

    constexpr std::uint64_t word() const { return word_; }
    // The number of the block's certain accesses that come later, among those that were counted.
    constexpr std::uint64_t later() const { return word_ & limit; }
    // The place of its instruction in the block.
    constexpr std::uint64_t instruction() const { return word_ >> 10 & limit; }
    // All of the block's instructions.
    constexpr std::uint64_t instructions() const { return word_ >> 20 & limit; }
    // It comes before the access that counts its block.
    constexpr bool early() const { return (word_ >> 30 & 1) != 0; }
    // It is an element of a string operation.
    constexpr bool string() const { return (word_ >> 31 & 1) != 0; }
    // The block's number (CodeBlocks); 0 if it has none.
    constexpr std::uint32_t block() const { return static_cast<std::uint32_t>(word_ >> 32); }

  private:
    std::uint64_t word_ = 0;
};

}  // namespace pagelens
