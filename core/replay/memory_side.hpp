// The memory side of a replay: one stream of lines, fed to the machine's memory-side cache and to
// its counterfactual twins, counted by phase and object.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "core/machine/fully_associative.hpp"
#include "core/machine/memory_side.hpp"
#include "core/replay/counters.hpp"
#include "core/replay/replay_options.hpp"

namespace pagelens {

// Remembers who used a sampled frame last, who is the owner of a line that is pushed out.
class FrameOwners {
  public:
    // About `touched` frames are going to be used.
    FrameOwners(std::uint32_t frames, const Sampling& sampling, std::size_t touched)
        : sampling_(sampling), owner_(sampling.dense_size(frames), touched) {}
    void set(std::uint32_t frame, std::uint16_t object) { owner_[sampling_.dense(frame)] = object; }
    [[nodiscard]] std::uint16_t of(std::uint32_t frame) const {
        return owner_[sampling_.dense(frame)];
    }

  private:
    Sampling sampling_;
    ZeroedArray<std::uint16_t> owner_;
};

class MemorySide {
  public:
    // About `touched` frames are going to be used.
    MemorySide(std::uint32_t frames, const Hierarchy& hierarchy, const ReplayOptions& options,
               const FrameOwners& owners, Counters& counters, std::size_t touched)
        : sampling_(options.sampling), owners_(owners), counters_(counters) {
        if (hierarchy.slots == 0) return;
        main_.emplace(hierarchy.slots, hierarchy.ways, sampling_, touched);
        if (options.two_way) two_way_.emplace(hierarchy.slots, 2, sampling_, touched);
        if (!options.ideal) return;
        ideal_.emplace(sampling_.dense_size(frames), sampling_.lines_in(hierarchy.slots),
                       Random(options.seed, options.node, 0, Stream::ideal_twin), touched);
        used_.emplace(sampling_.dense_size(frames), touched);
    }

    // Ahead of access(): the state of neighbouring pages may lie anywhere.
    [[gnu::always_inline]] void prefetch(std::uint32_t frame) const {
        if (main_) main_->prefetch(frame);
        if (two_way_) two_way_->prefetch(frame);
        if (!ideal_) return;
        ideal_->prefetch(sampling_.dense(frame));
        __builtin_prefetch(&(*used_)[sampling_.dense(frame)], 1);
    }

    // Lines of a sampled frame, read or written on behalf of an object.
    void access(unsigned phase, std::uint16_t object, std::uint32_t frame, std::uint64_t lines,
                bool write) {
        std::uint64_t* row = counters_.row(phase, object);
        count(row, write ? Component::msc_writes : Component::msc_reads, lines);
        if (!main_) return;
        const RowResult result = main_->access(frame, lines, write);
        if (result.missed != 0) {
            count(row, Component::msc_misses, result.missed);
            if (!write) count(row, Component::msc_read_misses, result.missed);
            count(row, Component::ddr_writes, result.dirty);
            const std::uint64_t victims = main_->cache().victims();
            count(row, Component::conflict_evictions, victims);
            if (victims != 0) collide(object, frame, victims);
        }
        if (two_way_) {
            const RowResult other = two_way_->access(frame, lines, write);
            count(row, Component::two_way_misses, other.missed);
            if (!write) count(row, Component::two_way_read_misses, other.missed);
            count(row, Component::two_way_ddr_writes, other.dirty);
        }
        if (ideal_) {
            const std::uint32_t dense = sampling_.dense(frame);
            const auto other = ideal_->access(dense, lines, write);
            count(row, Component::ideal_misses, other.missed);
            if (!write) count(row, Component::ideal_read_misses, other.missed);
            row[static_cast<std::size_t>(Component::ideal_ddr_writes)] += other.write_backs;
            std::uint64_t& used = (*used_)[dense];
            const std::uint64_t first = lines & ~used;
            used |= lines;
            count(row, Component::first_misses, first);
            if (!write) count(row, Component::first_read_misses, first);
        }
    }

  private:
    // A set-indexed cache, its sampled sets alone. Where some lines of a page are sampled, a row of
    // the cache has those of several sets side by side, which keeps it in the host's caches.
    class Indexed {
      public:
        Indexed(std::uint32_t slots, std::uint32_t ways, const Sampling& sampling,
                std::size_t touched)
            : set_bits_(static_cast<unsigned>(std::countr_zero(slots / ways))),
              row_bits_(
                  static_cast<unsigned>(std::countr_zero(lines_per_page / sampling.most_lines()))),
              sampling_(sampling),
              cache_((sampling.dense_size(slots / ways) >> row_bits_) + 1, ways, touched) {}
        // The lines of the result and of victims are other ones, but as many.
        RowResult access(std::uint32_t frame, std::uint64_t lines, bool write) {
            const std::uint32_t set = sampling_.dense(set_of(frame));
            const unsigned first = (set & ((1u << row_bits_) - 1)) * (lines_per_page >> row_bits_);
            return cache_.access(set >> row_bits_, frame >> set_bits_,
                                 sampling_.packed(frame, lines) << first, write);
        }
        void prefetch(std::uint32_t frame) const {
            cache_.prefetch(sampling_.dense(set_of(frame)) >> row_bits_);
        }
        [[nodiscard]] std::uint32_t set_of(std::uint32_t frame) const {
            return frame & ((1u << set_bits_) - 1);
        }
        [[nodiscard]] std::uint32_t victim_frame(std::uint32_t frame, int line) const {
            return cache_.victim_tag(line) << set_bits_ | set_of(frame);
        }
        [[nodiscard]] const MemorySideCache& cache() const { return cache_; }

      private:
        unsigned set_bits_;
        unsigned row_bits_;  // log2 of the sets of a row
        Sampling sampling_;
        MemorySideCache cache_;
    };

    static void count(std::uint64_t* row, Component component, std::uint64_t lines) {
        row[static_cast<std::size_t>(component)] += static_cast<unsigned>(std::popcount(lines));
    }

    void collide(std::uint16_t object, std::uint32_t frame, std::uint64_t victims) {
        while (victims != 0) {
            const std::uint64_t same = main_->cache().same_victim(victims);
            const std::uint32_t victim = main_->victim_frame(frame, std::countr_zero(victims));
            counters_.collisions.add(object, owners_.of(victim),
                                     static_cast<unsigned>(std::popcount(same)));
            victims &= ~same;
        }
    }

    Sampling sampling_;
    const FrameOwners& owners_;
    Counters& counters_;
    std::optional<Indexed> main_, two_way_;
    std::optional<FullyAssociativeCache> ideal_;
    std::optional<ZeroedArray<std::uint64_t>> used_;  // [sampled frame] lines that were ever used
};

}  // namespace pagelens
