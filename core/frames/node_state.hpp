// A node between boot and the job: its memory, its page cache, and the steps of its history.
//
// Jobs come and go: a job's processes first-touch their memory in turns of a few pages, so their
// frames interleave, and are freed process by process, so the lists come back in another order.
// Now and then a file's page enters the page cache and stays. (Ageing as runs of allocate and free,
// not as random draws: only then are nodes of one fleet either nearly perfect or nearly random.)
//
// A plain value: copying it is a snapshot.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/maybe_frame.hpp"
#include "core/frames/memory.hpp"
#include "core/frames/page_cache.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

// The properties of a fleet's jobs. Sizes are in frames of 4 KiB.
struct JobMix {
    double smallest_job_frames;  // a job's size is uniform in the logarithm ...
    double largest_job_frames;   // ... between these two
    std::uint32_t processes;     // of a job; process p runs on CPU p mod cpus
    std::uint32_t longest_turn;  // frames that a process touches before another does
    double cache_interval;       // mean frames touched between pages that enter the page cache
    double cache_share;          // of memory that the page cache holds after a job
    double huge_share;           // of a job's touches that take a 2 MiB block
    double kept_free_share;      // of memory that jobs leave free
};

class NodeState {
  public:
    // The node is fresh from boot, or as taken over from a running kernel.
    NodeState(Layout layout, std::uint32_t grain) : memory_(std::move(layout), grain) {}
    explicit NodeState(Memory memory) : memory_(std::move(memory)) {}

    // Allocates as Memory::alloc does, and reclaims page cache if memory runs short. Returns
    // nothing only if none is left at all.
    MaybeFrame alloc(const Request& request);
    // Does the same for up to `most` single pages, see Memory::alloc_run; the count is 0 only where
    // none is left.
    Run alloc_run(const Request& request, std::uint32_t most) {
        const Run run = memory_.alloc_run(request, Memory::Mark::low, most);
        return run.count != 0 ? run : reclaim_and_alloc(request, most);
    }
    void free(unsigned cpu, Frame frame, unsigned order) { memory_.free(cpu, frame, order); }

    // Runs `jobs` jobs, one after the other.
    void age(std::uint32_t jobs, const JobMix& mix, Random& random);
    // Runs one job of `job_frames` frames.
    void run_job(double job_frames, const JobMix& mix, Random& random);
    // Reads or writes files through the page cache, on a CPU: `frames` pages enter it. (Direct I/O
    // has none.)
    void buffered_io(std::uint64_t frames, unsigned cpu = 0);
    // Frees the page cache but for `stragglers` of its pages, chosen at random (all, if it has
    // fewer), and of these pins `pinned`, which neither compaction nor evacuation moves and no
    // later drop frees.
    void drop_caches(std::uint32_t stragglers, std::uint32_t pinned, Random& random);
    void compact();
    // The three sorts are explained in sorts.hpp: docs/zonesort.md, Intel's rule, and by address.
    void sort_for_cache(std::uint32_t slots, bool evacuating);
    void sort_by_buckets(std::uint32_t slots);
    void sort_by_address();
    // Makes the memory that of a kernel with page_alloc.shuffle=1, from now on.
    void shuffle(Random& random);
    // Takes 2 MiB pages for the hugetlb pool of a NUMA node, and returns how many it got. Memory is
    // compacted once there are no more. The page got last is handed out first.
    std::uint32_t fill_huge_pool(unsigned numa, std::uint32_t pages);
    std::vector<Frame>& huge_pool(unsigned numa) { return huge_pools_[numa]; }
    // Does as kswapd for a NUMA node that pages are promoted to: its oldest pages of the page cache
    // go to the nodes of the bit mask `slow`, or are dropped where these are full, until the node
    // is above the watermark of promotion. Returns how many frames are then missing.
    std::uint32_t make_room(unsigned numa, std::uint64_t slow);
    // The two functions of memory hotplug are explained in isolation.hpp.
    bool take_offline(Frame begin, Frame end);
    void bring_online(Frame begin, Frame end);
    // Takes what is free in [begin, end) out of the lists for good, for memory set aside at boot.
    // Precondition: both are multiples of 2^max_order.
    void reserve(Frame begin, Frame end);

    [[nodiscard]] const Memory& memory() const { return memory_; }
    [[nodiscard]] Memory& memory() { return memory_; }
    [[nodiscard]] PageCache& page_cache() { return page_cache_; }
    [[nodiscard]] std::uint64_t page_cache_frames() const { return page_cache_.pages(); }

  private:
    void reclaim(std::uint64_t numas);
    Run reclaim_and_alloc(const Request& request, std::uint32_t most);
    bool cache_page(unsigned cpu);

    Memory memory_;
    PageCache page_cache_;
    std::vector<std::vector<Frame>> huge_pools_ =  // [numa] free 2 MiB pages, the next one last
        std::vector<std::vector<Frame>>(memory_.numas());
};

}  // namespace pagelens
