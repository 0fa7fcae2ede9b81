// Makes the frames of the next mapping new ones.
//
// The kernel hands out first what was given back last: a mapping made after another has gone gets
// the same frames (99.8% of 256 MiB in pages of 4 KiB on an idle guest, every other time 20% of
// them at the same page), so that it is hardly a second sample of page maps. A ballast takes those
// frames and others, and gives them back piece by piece in random order: after one of twice the
// mapping's size 52% of its frames are those of the mapping before, of four times 25%, and none at
// the same page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "probes/memory.hpp"

namespace pagelens::probes {

class Ballast {
  public:
    // Populates `bytes` of such pages by pinned threads as Memory does (of a pool at most what is
    // free there, which may be nothing), cuts them into pieces, and gives pieces back in random
    // order until `kept` of them, a share below 1, are left. A piece is a page, of small pages 1 to
    // 512.
    //
    // With 0 kept, neighbours among the free frames grow together again: the next mapping has runs
    // of up to 4 MiB (the largest block of the buddy system) in random order, as on a node that
    // frees much at once. What is kept while the next mapping is made keeps them apart: its runs
    // are as long as pieces, as on a node whose memory others hold in part. Errors: as Memory's;
    // std::invalid_argument: kept.
    Ballast(std::size_t bytes, Pages pages, std::span<const int> cpus, double kept,
            std::uint64_t seed);
    ~Ballast() { release(); }
    Ballast(const Ballast&) = delete;
    Ballast& operator=(const Ballast&) = delete;

    // Bytes that are held now.
    [[nodiscard]] std::size_t held() const { return held_; }
    // Gives back what was kept, in random order; a second time does nothing.
    void release();

  private:
    struct Piece {
        std::size_t first, bytes;  // of the memory
    };
    void give_back(std::size_t pieces);  // until so many are left

    std::optional<Memory> memory_;  // none where the pool had no page to give
    std::size_t held_ = 0;
    std::vector<Piece> pieces_;  // still held, in the order in which they go, last first
};

}  // namespace pagelens::probes
