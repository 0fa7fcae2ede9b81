// What a node went through since its boot, and the free lists that this left behind.
//
// Jobs come and go: a job's processes first-touch their memory in turns of a few pages, so their
// frames interleave, and are freed process by process, so the lists come back in another order.
// Now and then a file's page enters the page cache and stays. (Ageing as runs of allocate and free,
// not as random draws: only then are nodes of one fleet either nearly perfect or nearly random.)
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/buddy.hpp"
#include "core/frames/philox.hpp"

namespace pagelens {

// How the jobs of a fleet are. Sizes are in frames of 4 KiB.
struct JobMix {
    double smallest_job_frames;  // a job's size is uniform in the logarithm ...
    double largest_job_frames;   // ... between these two
    std::uint32_t processes;     // of a job
    std::uint32_t longest_turn;  // frames that a process touches before another does
    double cache_interval;       // mean frames touched between pages that enter the page cache
    double cache_share;          // of memory that the page cache holds after a job
    double huge_share;           // of a job's touches that take a 2 MiB block
    double kept_free_share;      // of memory that jobs leave free
};

class NodeState {
  public:
    NodeState(std::uint32_t frames, std::uint32_t grain) : buddy_(frames, grain) {}

    // Runs `jobs` jobs, one after the other.
    void age(std::uint32_t jobs, const JobMix& mix, Random& random);
    // Runs one job of `job_frames` frames.
    void run_job(double job_frames, const JobMix& mix, Random& random);
    // Frees the page cache but for `stragglers` of its pages, chosen at random (all, if it has
    // fewer). A straggler is one page that keeps its block from merging; it occupies one unit of
    // the grain.
    void drop_caches(std::uint32_t stragglers, Random& random);
    // Sorts the free lists by address.
    void zonesort() { buddy_.sort(); }

    [[nodiscard]] const Buddy& buddy() const { return buddy_; }
    [[nodiscard]] std::uint32_t page_cache_frames() const {
        return static_cast<std::uint32_t>(page_cache_.size()) * buddy_.grain();
    }

  private:
    Buddy buddy_;
    std::vector<Frame> page_cache_;  // a unit of the grain each
};

}  // namespace pagelens
