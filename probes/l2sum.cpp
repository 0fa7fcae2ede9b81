#include "probes/l2sum.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "probes/loops.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {

L2SumResult l2sum(const Memory& memory, std::size_t block_bytes, std::size_t apart_bytes,
                  std::size_t sweeps, std::size_t repeats, std::span<const int> cpus, Isa isa) {
    require(isa);
    if (block_bytes == 0 || block_bytes % sizeof(double) != 0) {
        throw std::invalid_argument("block_bytes: " + std::to_string(block_bytes) +
                                    "; a multiple of 8, at least 8");
    }
    if (apart_bytes < block_bytes) {
        throw std::invalid_argument("apart_bytes: " + std::to_string(apart_bytes) +
                                    "; at least block_bytes");
    }
    if (sweeps == 0) throw std::invalid_argument("sweeps: 0; at least 1");
    const Memory::Use use(memory);
    const std::size_t n = block_bytes / sizeof(double);
    std::vector<double*> blocks;
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        blocks.push_back(use.at<double>(i * apart_bytes, n, "block"));
    }

    // Small whole numbers: their sum is exact in any order.
    double right = 0;
    for (std::size_t i = 0; i < n; ++i) right += static_cast<double>(i % 1000);
    const Loops& loop = loops(isa, false, false);
    std::atomic<bool> ok{true};
    run_pinned(cpus, [&](const Member& member) {
        double* const block = blocks[member.index];
        for (std::size_t i = 0; i < n; ++i) block[i] = static_cast<double>(i % 1000);
        if (loop.sum(block, n) != right) ok = false;
    });
    const Times times = timed(cpus, repeats, [&](const Member& member) {
        double total = 0;
        for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
            if (stop_requested()) return;
            total += loop.sum(blocks[member.index], n);
        }
        if (total != right * static_cast<double>(sweeps)) ok = false;
    });
    return {times.each(), cpus.size(), ok};
}

}  // namespace pagelens::probes
