// The lines that one copy of a program moves to and from memory on a placement, in their order, as
// physical addresses: what a DRAM (core/machine/dram.hpp) or another simulator is fed.
//
// Pages, their frames and the L2 caches are as in a replay of one rank without sampling, but line
// by line: a miss is fetched before its victim is written back, a dirty line from above is kept
// without a fetch, a non-temporal store takes the line out of the cache, the kernel clears pages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/frames/placement.hpp"
#include "core/machine/set_associative.hpp"
#include "core/replay/rank_pages.hpp"

namespace pagelens {

struct PrivateL2 {
    std::uint32_t sets = 0;  // 0: none is left below what the program was compiled with
    std::uint32_t ways = 1;
    std::uint32_t shared_by = 1;  // threads of the program
};

class PhysicalLines {
  public:
    static constexpr std::uint64_t write_bit = std::uint64_t{1} << 63;

    // The program must outlive it. Throws std::invalid_argument for an L2 that cannot be.
    PhysicalLines(const Program& program, const Placement& placement, const PrivateL2& l2);

    // Returns more addresses of lines, with write_bit for those written, or none when the program
    // ends. They stay valid until the next call. Throws OutOfMemory.
    std::span<const std::uint64_t> next();

    // Returns the frame that each page of the program had last so far, or no_frame.
    [[nodiscard]] std::span<const std::uint32_t> frames() const { return frames_; }
    static constexpr std::uint32_t no_frame = ~0u;

  private:
    void step(const Op& op);
    void move(const Op& op, std::uint32_t frame, std::uint64_t lines);
    void emit(std::uint64_t line, bool write) {
        lines_.push_back(line * line_bytes | (write ? write_bit : 0));
    }

    std::unique_ptr<Cursor> cursor_;
    RankPages pages_;
    PrivateL2 l2_shape_;
    std::vector<SetAssociativeCache> l2_;
    std::vector<std::uint64_t> lines_;
    std::vector<std::uint32_t> frames_;  // [page]
};

}  // namespace pagelens
