// DRAMs and requests drawn at random, for tests that compare implementations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "core/machine/dram.hpp"

namespace pagelens {

class DrawnDram {
  public:
    explicit DrawnDram(std::uint64_t seed) : random_(seed) {}

    // A number from `least` to `most`.
    std::int64_t draw(std::int64_t least, std::int64_t most) {
        return least +
               static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
    }

    // Each mask a bit of its own, in any order, then sums of them: one to one whatever is drawn.
    DramFields fields() {
        DramFields drawn;
        drawn.offset_bits = 6;
        Masks* const fields[] = {&drawn.column, &drawn.bank,    &drawn.bank_group,
                                 &drawn.rank,   &drawn.channel, &drawn.row};
        const std::int64_t most[] = {3, 2, 2, 1, 1, 4};
        std::vector<std::size_t> sizes;
        for (const std::int64_t limit : most) {
            sizes.push_back(static_cast<std::size_t>(draw(0, limit)));
        }
        std::vector<std::uint64_t> masks(std::reduce(sizes.begin(), sizes.end()));
        for (std::size_t i = 0; i < masks.size(); ++i) masks[i] = std::uint64_t{64} << i;
        std::ranges::shuffle(masks, random_);
        for (std::int64_t sums = masks.size() < 2 ? 0 : draw(0, 12); sums > 0; --sums) {
            const auto to = static_cast<std::size_t>(random_() % masks.size());
            const auto from = static_cast<std::size_t>(random_() % masks.size());
            if (to != from) masks[to] ^= masks[from];
        }
        std::size_t next = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            for (std::size_t bit = 0; bit < sizes[i]; ++bit) fields[i]->push_back(masks[next++]);
        }
        if (draw(0, 3) == 0) drawn.interleave = static_cast<std::uint32_t>(draw(2, 3));
        const auto bits = static_cast<std::int64_t>(masks.size());
        drawn.interleave_bit = static_cast<unsigned>(6 + draw(0, std::min<std::int64_t>(2, bits)));
        return drawn;
    }

    // In units of `clock`.
    DramTimings timings(std::int64_t clock) {
        const auto time = [&](std::int64_t least, std::int64_t most) {
            return Picoseconds(clock * draw(least, most));
        };
        DramTimings t;
        t.tCK = Picoseconds(clock);
        t.burst = time(1, 6);
        t.CL = time(1, 12);
        t.CWL = time(1, 12);
        t.tRCD = time(1, 12);
        t.tRP = time(1, 12);
        t.tRAS = t.tRCD + time(0, 15);
        t.tRC = t.tRAS + time(0, 15);
        t.tRRD_S = time(1, 6);
        t.tRRD_L = t.tRRD_S + time(0, 6);
        t.tFAW = time(1, 40);
        t.tCCD_S = time(1, 6);
        t.tCCD_L = t.tCCD_S + time(0, 6);
        t.tCCD_L_WR = t.tCCD_S + time(0, 12);
        t.tWTR_S = time(1, 6);
        t.tWTR_L = t.tWTR_S + time(0, 10);
        t.tRTW = time(1, 4);
        t.tRTRS = time(1, 4);
        t.tRTP = time(1, 10);
        t.tWR = time(1, 15);
        t.tRFC = time(1, 60);
        t.tREFI = t.tRFC + t.tRC + t.tRP + t.tRTP + t.CWL + t.burst + t.tWR + time(0, 200);
        return t;
    }

    DramConfig config(std::int64_t clock) {
        DramConfig drawn;
        drawn.map = fields();
        drawn.timings = timings(clock);
        const RowPolicy policies[] = {RowPolicy::open, RowPolicy::closed, RowPolicy::ideal};
        drawn.policy = policies[draw(0, 2)];
        const unsigned windows[] = {1, 2, 3, 8, 63, 64};
        drawn.window = windows[draw(0, 5)];
        drawn.outstanding = static_cast<unsigned>(draw(1, draw(0, 1) == 0 ? 4 : 70));
        drawn.path = Picoseconds(clock * draw(0, 20));
        return drawn;
    }

    // Sweeps of a few lines with jumps between them.
    std::vector<std::uint64_t> requests(std::uint64_t bytes, std::size_t count) {
        std::vector<std::uint64_t> drawn;
        std::uint64_t address = 0;
        const std::int64_t jumps = draw(1, 16), writes = draw(0, 8);
        while (drawn.size() < count) {
            address = draw(1, 16) <= jumps ? random_() : address + 64;
            address = address % bytes / 64 * 64;
            drawn.push_back(address | (draw(1, 8) <= writes ? Dram::write_bit : 0));
        }
        return drawn;
    }

  private:
    std::mt19937_64 random_;
};

}  // namespace pagelens
