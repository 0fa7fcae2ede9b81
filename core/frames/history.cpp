#include "core/frames/history.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace pagelens {
namespace {

struct Block {
    Frame frame;
    unsigned order;
};

template <class T>
void shuffle(std::vector<T>& items, Random& random) {
    for (auto left = static_cast<std::uint32_t>(items.size()); left > 1; --left) {
        std::swap(items[left - 1], items[random.below(left)]);
    }
}

// Frees all but `kept` of the page cache, chosen at random.
void shrink(std::vector<Frame>& page_cache, std::size_t kept, Buddy& buddy, Random& random) {
    if (page_cache.size() <= kept) return;
    shuffle(page_cache, random);
    while (page_cache.size() > kept) {
        buddy.free(page_cache.back(), 0);
        page_cache.pop_back();
    }
}

}  // namespace

void NodeState::age(std::uint32_t jobs, const JobMix& mix, Random& random) {
    for (std::uint32_t job = 0; job < jobs; ++job) {
        run_job(random.log_uniform(mix.smallest_job_frames, mix.largest_job_frames), mix, random);
    }
}

void NodeState::run_job(double job_frames, const JobMix& mix, Random& random) {
    const std::uint32_t grain = buddy_.grain();
    const auto wanted = static_cast<std::uint64_t>(job_frames);
    const auto kept_free = static_cast<std::uint32_t>(mix.kept_free_share * buddy_.frames());
    std::vector<std::vector<Block>> owned(mix.processes);
    std::uint64_t got = 0;
    const auto touch = [&](std::vector<Block>& process) {
        const bool huge = mix.huge_share > 0 && random.uniform() < mix.huge_share;
        unsigned order = huge ? huge_order : 0;
        auto frame = buddy_.alloc(order);
        if (!frame && huge) frame = buddy_.alloc(order = 0);
        if (!frame) return false;
        process.push_back({*frame, order});
        got += std::max(1u << order, grain);
        return true;
    };
    bool memory_left = true;
    while (memory_left && got < wanted && buddy_.free_frames() > kept_free) {
        auto& process = owned[random.below(mix.processes)];
        const std::uint64_t turn_began = got;
        const std::uint64_t turn_ends = got + 1 + random.below(mix.longest_turn);
        while (memory_left && got < std::min(turn_ends, wanted)) memory_left = touch(process);
        // By chance, not at intervals: regular gaps would line up with the blocks and the slots.
        if (random.uniform() * mix.cache_interval >= static_cast<double>(got - turn_began))
            continue;
        if (const auto frame = buddy_.alloc(0)) page_cache_.push_back(*frame);
    }
    // Processes end in an order of their own; each gives its memory back as it got it.
    shuffle(owned, random);
    for (const auto& process : owned) {
        for (const Block& block : process) buddy_.free(block.frame, block.order);
    }
    const double cached_units = mix.cache_share * buddy_.frames() / grain;
    shrink(page_cache_, static_cast<std::size_t>(cached_units), buddy_, random);
}

void NodeState::drop_caches(std::uint32_t stragglers, Random& random) {
    shrink(page_cache_, stragglers, buddy_, random);
}

}  // namespace pagelens
