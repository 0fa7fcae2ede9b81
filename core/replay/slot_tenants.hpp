// Tracks which pages of which ranks share each set of a memory-side cache, in whole pages, and
// which of them the cache holds. So a line's fate is known at any moment of a run without
// simulating the cache until then. Ranks run in lockstep, so the program decides when a page was
// used last, whatever the placement. The placement only decides who shares a set with whom.
//
// This is exact for programs whose ops move the same lines of a page each time. Elsewhere a line
// counts as used when any line of its page that is ever used is used. A page that was given back is
// forgotten, and with it the lines that it left in its slot.
#pragma once

#include <array>
#include <cstdint>

#include "core/machine/huge_array.hpp"
#include "core/machine/row_kernels.hpp"
#include "core/replay/page_uses.hpp"
#include "core/replay/rank_pages.hpp"

namespace pagelens {

class SlotTenants {
  public:
    // `walks` are those of the program, if it has them.
    SlotTenants(std::uint32_t pages, std::uint32_t ranks, std::uint32_t sets, std::uint32_t ways,
                const WholeWalks* walks)
        : ranks_(ranks),
          ways_(ways),
          set_mask_(sets - 1),
          uses_(pages, walks),
          first_(sets, std::size_t{pages} * ranks),
          next_(std::size_t{pages} * ranks) {}

    // The page has its frames, or is about to lose them.
    void come(const RankPages& pages, std::uint32_t page) {
        join(pages, page);
        uses_.forget(page);
    }
    void go(const RankPages& pages, std::uint32_t page) {
        leave(pages, page);
        uses_.forget(page);
    }
    // Joins the page's slot after a move to other frames.
    void join(const RankPages& pages, std::uint32_t page);
    void leave(const RankPages& pages, std::uint32_t page);

    // Every rank wrote all of a page that has just come, or used lines of a page.
    void cleared(std::uint32_t page) { uses_.cleared(page); }
    void used(std::uint32_t page, std::uint64_t lines, bool write) {
        uses_.used(page, lines, write);
    }
    // A page comes somewhere in a block of ops; a block has happened.
    void come_within(const RankPages& pages, std::uint32_t page) {
        come(pages, page);
        uses_.comes_within(page);
    }
    void pass(const SweepBlocks& block) { uses_.pass(block); }
    [[nodiscard]] bool was_cleared(std::uint32_t page) { return uses_.of(page).cleared != 0; }
    [[gnu::always_inline]] void prefetch(std::uint32_t page) const { uses_.prefetch(page); }
    void prefetch_to_come(std::uint32_t page) const {
        uses_.prefetch_to_come(page);
        __builtin_prefetch(&next_[std::size_t{page} * ranks_], 1);
    }

    struct Found {
        bool missed;
        std::uint32_t dirty_victim;  // its frame; `none` where nothing dirty had to go
    };
    static constexpr std::uint32_t none = ~0u;
    // Returns what a line of a rank's page finds. Call it before used() or cleared() for the op.
    // `reached` [rank] has the lines of the page that this op has used already.
    [[nodiscard]] Found look(const RankPages& pages, std::uint32_t page, std::uint32_t rank,
                             unsigned line, const std::uint64_t* reached, bool write);

  private:
    // Within an op ranks come one after the other.
    using Moment = std::uint64_t;
    [[nodiscard]] static Moment moment(std::uint32_t op, std::uint32_t rank) {
        return op == 0 ? 0 : Moment{op} << 32 | rank;
    }
    // Links the tenants that joined last, whose slots were fetched while others joined.
    void settle() {
        for (std::size_t i = 0; i < joining_count_; ++i) {
            const auto [set, tenant] = joining_[i];
            next_[tenant] = first_[set];
            first_[set] = tenant + 1;
        }
        joining_count_ = 0;
    }

    std::uint32_t ranks_, ways_, set_mask_;
    PageUses uses_;
    ZeroedArray<std::uint32_t> first_;  // [set] 1 + page * ranks + rank of a tenant; 0: none
    HugeVector<std::uint32_t> next_;    // [page * ranks + rank] of the same set

    struct Joining {
        std::uint32_t set, tenant;  // page * ranks + rank
    };
    std::array<Joining, 64> joining_;
    std::size_t joining_count_ = 0;
};

}  // namespace pagelens
