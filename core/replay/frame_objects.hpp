// Which object used each frame of a node last, and caches of which cores. A job has few of a node's
// frames, but they may lie anywhere: an array of all frames took 2 GB for a job of 4 GiB on a node
// of 1.5 TB.
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
        return block == 0 ? none : blocks_[block - 1][frame % frames_of_block].object;
    }
    // Sets the object of a frame, and returns the one before.
    std::uint16_t set(std::uint32_t frame, std::uint16_t object) {
        return std::exchange(at(frame).object, object);
    }
    // The same, and caches of a group have lines of the frame from now on.
    void use(std::uint32_t frame, std::uint16_t object, std::uint16_t group) {
        at(frame) = {object, group};
    }
    // Returns the group whose caches got lines of the frame last, or `none`. It is `none` from now
    // on: they are going to drop these lines.
    std::uint16_t drop(std::uint32_t frame) { return std::exchange(at(frame).group, none); }

  private:
    struct Last {
        std::uint16_t object = none, group = none;
    };
    static constexpr std::uint32_t frames_of_block = 16;  // a cache line of the host
    using Block = std::array<Last, frames_of_block>;

    Last& at(std::uint32_t frame) {
        std::uint32_t& block = block_of_[frame / frames_of_block];
        if (block == 0) {
            blocks_.emplace_back();
            block = static_cast<std::uint32_t>(blocks_.size());
        }
        return blocks_[block - 1][frame % frames_of_block];
    }

    ZeroedArray<std::uint32_t> block_of_;  // its number, from 1 on, or 0 if no frame of it is used
    HugeVector<Block> blocks_;
};

}  // namespace pagelens
