// Which object used each frame of a node last. A job has few of a node's frames, but they may lie
// anywhere: an array of all frames took 2 GB for a job of 4 GiB on a node of 1.5 TB.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/machine/huge_array.hpp"

namespace pagelens {

class FrameObjects {
  public:
    static constexpr std::uint16_t none = 0xffff;

    // The node has so many frames, of which about `used` are going to be used.
    FrameObjects(std::uint32_t frames, std::size_t used)
        : block_of_(std::size_t{frames} / frames_of_block + 1, used) {
        blocks_.reserve(std::min<std::size_t>(frames / frames_of_block + 1, used));
    }

    // Returns `none` for a frame that no object has used.
    [[nodiscard]] std::uint16_t operator[](std::uint32_t frame) const {
        const std::uint32_t block = block_of_[frame / frames_of_block];
        return block == 0 ? none : blocks_[block - 1][frame % frames_of_block];
    }
    // Sets the object of a frame, and returns the one before.
    std::uint16_t set(std::uint32_t frame, std::uint16_t object) {
        std::uint32_t& block = block_of_[frame / frames_of_block];
        if (block == 0) {
            blocks_.emplace_back().fill(none);
            block = static_cast<std::uint32_t>(blocks_.size());
        }
        return std::exchange(blocks_[block - 1][frame % frames_of_block], object);
    }

  private:
    static constexpr std::uint32_t frames_of_block = 32;  // a cache line of the host
    using Block = std::array<std::uint16_t, frames_of_block>;

    ZeroedArray<std::uint32_t> block_of_;  // its number, from 1 on, or 0 if no frame of it is used
    HugeVector<Block> blocks_;
};

}  // namespace pagelens
