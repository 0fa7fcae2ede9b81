// A machine's caches fed access by access, as a system emulator sees them, and counted by phase.
//
// The same models and rules as in compilation and replay: a miss fetches first and then writes its
// victim back; a line that comes dirty from above is not fetched; a non-temporal store takes the
// line out of the private caches. Nothing is sampled and nothing is scaled. What passes the last of
// the caches is counted by the NUMA node whose memory it is.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/address/units.hpp"
#include "core/machine/memory_side.hpp"
#include "core/machine/set_associative.hpp"
#include "core/machine/virtual_l1.hpp"
#include "core/replay/counters.hpp"

namespace pagelens {

struct LiveMachine {
    std::uint32_t cores = 1;
    std::uint32_t l1_ways = 8;  // of 64 sets
    std::uint32_t l2_sets = 1024, l2_ways = 16, l2_shared_by = 1;
    // Each node has a memory-side cache of its own, of so many slots, for its frames.
    std::uint32_t slots = 0;  // 0: none
    std::uint32_t ways = 1;
    std::vector<std::uint32_t> node_begins = {0};  // the first frame of each node, ascending
    std::uint32_t frames = 0;                      // all lie below this one
};

// Lines of a node's memory, behind all caches.
struct NodeLines {
    std::uint64_t reads = 0, writes = 0;
    bool operator==(const NodeLines&) const = default;
    NodeLines& operator+=(const NodeLines& other) {
        reads += other.reads;
        writes += other.writes;
        return *this;
    }
};

class LiveCaches {
  public:
    using Counts = std::array<std::uint64_t, components>;
    static constexpr std::uint32_t no_frame = ~std::uint32_t{0};  // not memory: a device

    // Throws std::invalid_argument for a machine that cannot be.
    explicit LiveCaches(const LiveMachine& machine) : machine_(machine) {
        const std::uint32_t sets = machine.slots / std::max(machine.ways, 1u);
        if (machine.slots != 0 &&
            (sets == 0 || machine.frames / sets >= MemorySideCache::most_tags))
            throw std::invalid_argument(
                "memory-side cache: more than 126 frames would share a slot");
        if (machine.l1_ways < 1 || machine.l1_ways > VirtualL1::most_ways)
            throw std::invalid_argument("l1: from 1 to 16 ways");
        if (machine.l2_ways < 1 || machine.l2_ways > SetAssociativeCache::most_ways)
            throw std::invalid_argument("l2: from 1 to 64 ways");
        if (machine.frames > VirtualL1::most_frames)
            throw std::invalid_argument("memory: more than 512 GiB");
        l1_.assign(machine.cores, VirtualL1(machine.l1_ways));
        const std::uint32_t shared = std::max(machine.l2_shared_by, 1u);
        for (std::uint32_t core = 0; core < machine.cores; ++core) {
            l2_index_.push_back(core / shared);
        }
        l2_.assign((machine.cores + shared - 1) / shared,
                   SetAssociativeCache(machine.l2_sets, machine.l2_ways));
        nodes_.resize(machine.node_begins.size());
        if (machine.slots == 0) return;
        for (std::size_t node = 0; node < machine.node_begins.size(); ++node) {
            memory_side_.emplace_back(sets, machine.ways);
        }
    }

    // Returns the L1 of each core. An access for which its hides() says yes changes nothing but an
    // order of recency, and is counted; for any other, access() has to be called.
    [[nodiscard]] VirtualL1* first_levels() { return l1_.data(); }

    // `frame_of()` says the frame of the page that `address` lies in, or no_frame; it is asked when
    // L1 does not have the line. What crosses a line counts in both; what crosses a page, in its
    // first line alone, as nobody knows the other page's frame.
    template <class FrameOf>
    void access(std::uint32_t core, std::uint64_t address, unsigned size, bool write,
                FrameOf&& frame_of) {
        ++passed_;
        use(core, address, write, frame_of);
        const std::uint64_t last = address + size - 1, crossed = address ^ last;
        if (crossed >= line_bytes && crossed < page_bytes) [[unlikely]]
            use_rest(core, last, write, frame_of);
    }

    // No access is hidden until its line is used again.
    void hide_nothing() {
        for (VirtualL1& l1 : l1_) l1.hide_nothing();
    }

    // A non-temporal store; those that follow each other in a line reach memory as one.
    template <class FrameOf>
    void stream_store(std::uint32_t core, std::uint64_t address, FrameOf&& frame_of) {
        ++passed_;
        const std::uint64_t dirty = l1_[core].remove(address);
        if (dirty != VirtualL1::none) write_back(core, dirty);
        const std::uint32_t frame = frame_of();
        if (frame == no_frame) return;
        const std::uint64_t line = line_in(frame, address);
        if (line == streamed_) return;
        streamed_ = line;
        if (l2_of(core).remove(line)) {
            ++count(Component::l2_write_backs);
            at_memory(line, true);
        }
        at_memory(line, true);
    }

    // Translations of `core` may have changed.
    void flush(std::uint32_t core) {
        l1_[core].flush([&](std::uint64_t line) { write_back(core, line); });
    }

    // The counts since the last reset, which leaves the caches as they are.
    [[nodiscard]] const Counts& counts() const { return counts_; }
    // The same counts of each node.
    [[nodiscard]] const std::vector<NodeLines>& nodes() const { return nodes_; }
    // The number of accesses. One that crosses lines counts once.
    [[nodiscard]] std::uint64_t accesses() const { return all_accesses() - accesses_before_; }
    void reset_counts() {
        counts_ = {};
        nodes_.assign(nodes_.size(), {});
        accesses_before_ = all_accesses();
    }

  private:
    [[nodiscard]] std::uint64_t all_accesses() const {
        std::uint64_t sum = passed_;
        for (const VirtualL1& l1 : l1_) sum += l1.hidden();
        return sum;
    }

    template <class FrameOf>
    [[gnu::noinline]] void use_rest(std::uint32_t core, std::uint64_t address, bool write,
                                    FrameOf&& frame_of) {
        use(core, address, write, frame_of);
    }

    template <class FrameOf>
    [[gnu::always_inline]] void use(std::uint32_t core, std::uint64_t address, bool write,
                                    FrameOf&& frame_of) {
        VirtualL1& l1 = l1_[core];
        if (l1.finds(address, write)) return;
        const std::uint32_t frame = frame_of();
        if (frame == no_frame) return;
        l2_of(core).prefetch(line_in(frame, address));
        const std::uint64_t dirty = l1.insert(address, frame, write);
        if (dirty != VirtualL1::none) l2_of(core).prefetch(dirty);
        at_l2(core, line_in(frame, address), false);
        if (dirty != VirtualL1::none) write_back(core, dirty);
    }

    void write_back(std::uint32_t core, std::uint64_t line) { at_l2(core, line, true); }

    void at_l2(std::uint32_t core, std::uint64_t line, bool write) {
        ++count(Component::l2_accesses);
        const CacheAccess here = l2_of(core).access(line, write);
        if (!here.hit && !write) {
            ++count(Component::l2_misses);
            at_memory(line, false);
        }
        if (here.victim_dirty) {
            ++count(Component::l2_write_backs);
            at_memory(here.victim, true);
        }
    }

    void at_memory(std::uint64_t line, bool write) {
        ++count(write ? Component::msc_writes : Component::msc_reads);
        const auto frame = static_cast<std::uint32_t>(line / lines_per_page);
        const std::size_t node = node_of(frame);
        if (memory_side_.empty()) {
            ++(write ? nodes_[node].writes : nodes_[node].reads);
            return;
        }
        MemorySideCache& cache = memory_side_[node];
        const auto [set, tag] = cache.place_of(frame);
        const MemorySideCache::LineResult result =
            cache.access_line(set, tag, line % lines_per_page, write);
        if (!result.missed) return;
        ++count(Component::msc_misses);
        ++nodes_[node].reads;
        if (!write) ++count(Component::msc_read_misses);
        if (result.victim_dirty) {
            ++count(Component::ddr_writes);
            ++nodes_[node].writes;  // what it held is of the same node
        }
        if (result.victim_valid) ++count(Component::conflict_evictions);
    }

    static std::uint64_t line_in(std::uint32_t frame, std::uint64_t address) {
        return std::uint64_t{frame} * lines_per_page + (address >> line_bits) % lines_per_page;
    }
    [[nodiscard]] std::size_t node_of(std::uint32_t frame) const {
        std::size_t node = machine_.node_begins.size() - 1;
        while (node > 0 && frame < machine_.node_begins[node]) --node;
        return node;
    }
    SetAssociativeCache& l2_of(std::uint32_t core) { return l2_[l2_index_[core]]; }
    std::uint64_t& count(Component component) {
        return counts_[static_cast<std::size_t>(component)];
    }

    LiveMachine machine_;
    std::vector<VirtualL1> l1_;
    std::vector<SetAssociativeCache> l2_;
    std::vector<std::uint32_t> l2_index_;  // of each core
    std::vector<MemorySideCache> memory_side_;
    std::uint64_t streamed_ = ~std::uint64_t{0};
    Counts counts_{};
    std::vector<NodeLines> nodes_;
    std::uint64_t passed_ = 0;  // accesses that were not hidden
    std::uint64_t accesses_before_ = 0;
};

}  // namespace pagelens
