// One processor's caches, compiled twice: for rows of plain caches, and for all others.
// CacheHierarchy (core/machine/cache_hierarchy.hpp) picks one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/address/units.hpp"
#include "core/machine/cache_model.hpp"
#include "core/machine/hierarchy/l3_beside.hpp"
#include "core/machine/physical_cache.hpp"
#include "core/machine/snoop_filter.hpp"

namespace pagelens {

// `plain`: all parts are plain, as CacheRows means it.
template <bool plain>
class HierarchyOf {
  public:
    explicit HierarchyOf(const HierarchyModel& model);

    void access(std::span<const LineAccess> batch, MemoryTraffic& traffic);
    // `ends`, if given, gets for each access how long `traffic` is after it.
    void access(std::span<const PageRun> batch, MemoryTraffic& traffic,
                std::vector<std::size_t>* ends = nullptr);

    void become(const HierarchyOf& other);
    void refill(std::span<const PageRun> uses);

    [[nodiscard]] std::vector<std::uint64_t>& counts() { return counts_; }
    [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
    [[nodiscard]] bool private_holds(std::uint32_t core, std::uint64_t line) const;
    [[nodiscard]] bool l3_holds(std::uint64_t line) const;
    [[nodiscard]] std::uint32_t fewest_sets() const { return fewest_sets_; }
    [[nodiscard]] bool places_are_apart() const { return places_are_apart_; }
    [[nodiscard]] const std::optional<L3Beside>& beside() const { return beside_; }
    // What memory behind it did for the last batch.
    [[nodiscard]] const MemoryTraffic& traffic_beside() const { return traffic_beside_; }

  private:
    static constexpr std::size_t part_size = 32;  // accesses
    static constexpr std::uint32_t unknown_slice = ~std::uint32_t{0};
    static constexpr unsigned lately_bits = 9;  // about log2 of the lines that an L1 holds

    using Counter = CacheCounter;
    using Cache = PhysicalCache<plain>;
    using Entry = typename Cache::Entry;
    using Spot = typename Cache::Spot;
    using Filter = SnoopFilter<plain>;
    // The core whose access is under way, and the *tile* of the cores that share its L2.
    struct Requester {
        std::uint32_t core, l1, tile;
        std::uint64_t* counts;
        MemoryTraffic* traffic;

        // `happened`: adding is no branch, where which lines are dirty is at random.
        [[gnu::always_inline]] void count(Counter counter, bool happened = true) const {
            counts[static_cast<std::size_t>(counter)] += static_cast<std::uint64_t>(happened);
        }
    };
    // A line to read, to write to, or to overwrite as a whole.
    enum class Want : std::uint8_t { share, own, own_whole };

    [[nodiscard]] bool is_possible(std::uint32_t core, std::uint64_t line, AccessKind kind) const;
    [[gnu::noinline]] [[noreturn]] void refuse(std::uint32_t core, std::uint64_t line,
                                               AccessKind kind) const;
    [[gnu::flatten]] void run(std::span<const LineAccess> batch, MemoryTraffic& traffic,
                              std::vector<std::size_t>* ends = nullptr);
    bool expect_l1_miss(const LineAccess& its);
    std::uint32_t expect_l2_miss(const LineAccess& its);
    void prefetch_shared(std::uint64_t line, std::uint32_t slice) const;
    void access(const LineAccess& its, std::uint32_t slice, MemoryTraffic& traffic);

    void check(std::span<const PageRun> batch) const;
    bool append(std::uint32_t tile, std::uint64_t line, std::uint32_t slice, bool dirty);
    bool append_to_l3(std::uint64_t line, std::uint32_t slice, bool dirty);

    void load_or_store(const Requester& who, std::uint64_t line, std::uint32_t slice, bool write);
    [[gnu::noinline]] void write_back(Requester who, std::uint64_t line, std::uint32_t slice);
    [[gnu::noinline]] void stream_store(Requester who, std::uint64_t line, std::uint32_t slice);

    bool at_l2(const Requester& who, std::uint64_t line, std::uint32_t& slice, bool write,
               bool given);
    void fill_l1(const Requester& who, Spot spot, std::uint64_t line, std::uint32_t slice,
                 bool dirty);
    void fill_l2(const Requester& who, Spot spot, std::uint64_t line, std::uint32_t slice,
                 bool dirty);
    void l1_victim(const Requester& who, std::uint64_t line, std::uint32_t slice, bool dirty);
    void l2_victim(const Requester& who, std::uint64_t line, std::uint32_t slice, bool dirty);
    [[gnu::noinline]] bool settle_siblings(Requester who, std::uint64_t line, bool write);

    bool request(const Requester& who, std::uint64_t line, std::uint32_t slice, Want want,
                 bool given);
    void own(const Requester& who, std::uint64_t line, std::uint32_t slice);
    void cast_out(const Requester& who, std::uint64_t line, std::uint32_t slice, bool dirty,
                  bool held);
    [[gnu::noinline]] void fill_inclusive_l3(Requester who, Spot spot, std::uint64_t line,
                                             std::uint32_t slice);
    void l3_victim(const Requester& who, const Entry& victim);
    void memory(const Requester& who, std::uint64_t line, bool write);
    void ask_beside(const Requester& who, std::uint64_t line, std::uint32_t slice,
                    L3Request::Kind kind, bool flag = false, bool was_dirty = false) {
        if (!beside_) [[likely]]
            return;
        asked_.push_back({line, static_cast<std::uint16_t>(who.core),
                          static_cast<std::uint8_t>(slice), kind, flag, was_dirty});
    }
    // A line becomes dirty that `was_dirty` nowhere, or leaves the caches dirty.
    void written(const Requester& who, std::uint64_t line, bool was_dirty) {
        if (writes_at_once_ && !was_dirty) memory(who, line, true);
    }
    void leaves_dirty(const Requester& who, std::uint64_t line) {
        if (!writes_at_once_) memory(who, line, true);
    }
    [[nodiscard]] bool dirty_in_l3(std::uint64_t line, std::uint32_t slice) const {
        if (!writes_at_once_ || !l3_) return false;
        const Spot spot = l3_->find(line, slice);
        return spot && l3_->dirty(spot);
    }

    [[gnu::noinline]] bool invalidate(Holders tiles, std::uint64_t line, bool counted);
    [[gnu::noinline]] bool clean(std::uint32_t tile, std::uint64_t line);
    [[nodiscard]] bool l1s_hold(std::uint32_t tile, std::uint64_t line) const;
    // A tile has the L1s from its first to the next one's.
    [[nodiscard]] std::uint32_t first_l1(std::uint32_t tile) const { return tile * l1s_per_tile_; }
    [[nodiscard]] std::uint32_t slice_of(std::uint64_t line) const {
        return slices_ ? (*slices_)(line << line_bits) : 0;
    }

    // Arrays often lie powers of two apart, so all bits of a line decide its place (Knuth's
    // multiplicative hashing).
    [[nodiscard]] static std::size_t place_lately(std::uint64_t line) {
        return (line * 0x9e3779b97f4a7c15u) >> (64 - lately_bits);
    }

    // The private caches of a core.
    struct Own {
        std::uint32_t l1, tile;
    };

    std::uint32_t l2_shared_by_, l1s_per_tile_;
    Inclusion l2_inclusion_, l3_inclusion_;
    bool writes_at_once_;
    std::optional<AddressHash> slices_;
    std::vector<Own> own_;     // [core]
    std::optional<Cache> l1_;  // of all cores
    Cache l2_;                 // of all tiles
    std::optional<Cache> l3_;
    std::optional<L3Beside> beside_;
    std::vector<L3Request> asked_;  // since it was given the last
    MemoryTraffic traffic_beside_;
    // Without one there is a single tile, so nobody has to ask who holds what.
    std::optional<Filter> filter_;
    std::array<std::uint64_t, 1u << lately_bits> asked_for_;  // lines, at place_lately(line)
    std::uint64_t lines_end_;  // above all lines that every part can tell apart
    std::uint32_t fewest_sets_;
    bool places_are_apart_;
    std::vector<std::uint64_t> counts_;
};

}  // namespace pagelens
