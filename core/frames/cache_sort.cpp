// The rule of docs/zonesort.md; its words (broken block, group, gain, turn) are used here.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <tuple>

#include "core/frames/isolation.hpp"
#include "core/frames/sorts.hpp"

namespace pagelens {
namespace {

// Step 2: pages move out of blocks that few of them keep from being whole.
class Evacuation {
  public:
    Evacuation(Memory& memory, unsigned numa) : memory_(memory), map_(memory.map()) {
        const std::uint32_t size = block_units();
        for (const Zone& zone : memory.zones()) {
            if (zone.spec().numa != numa) continue;
            const Unit first = (zone.begin() + size - 1) & ~(size - 1);
            for (Unit block = first; block + size <= zone.end(); block += size) look_at(block);
        }
        std::sort(mendable_.begin(), mendable_.end(), [](const Block& a, const Block& b) {
            return std::tie(a.allocated, a.first) < std::tie(b.allocated, b.first);
        });
    }

    void run(unsigned cpu, std::vector<Move>& moves) {
        for (const Block& block : mendable_) {
            const std::uint32_t free = block_frames - block.allocated;
            if (block.allocated > block_frames / 2) return;
            if (block.allocated > free_in_broken_ - free) return;
            if (!evacuate(memory_, {block.first, block.first + block_units()}, cpu, moves))
                continue;
            free_in_broken_ -= free + block.allocated;
        }
    }

    // Small free blocks where memory is broken most come first, so that moved pages go there.
    void fill_dense_blocks_first(const Zone& zone) {
        const auto order = [&](Memmap::List list) {
            std::vector<Unit> blocks = map_.elements(list);
            std::stable_sort(blocks.begin(), blocks.end(), [this](Unit a, Unit b) {
                return std::tuple(-allocated(a), a) < std::tuple(-allocated(b), b);
            });
            map_.reorder(list, blocks);
        };
        for (unsigned small = 0; small < map_.grain_order(); ++small) {
            order(zone.parts_list(small, MigrateType::movable));
        }
        for (unsigned level = 0; level + 1 < map_.levels(); ++level) {
            order(zone.list(level, MigrateType::movable));
        }
    }

  private:
    static constexpr std::uint32_t block_frames = 1u << max_order;
    struct Block {
        Unit first;
        std::uint32_t allocated;  // frames
    };
    [[nodiscard]] std::uint32_t block_units() const { return 1u << (map_.levels() - 1); }
    [[nodiscard]] std::int64_t allocated(Unit unit) const {
        const std::size_t block = unit / block_units();
        return block < allocated_.size() ? allocated_[block] : 0;
    }

    void look_at(Unit block) {
        std::uint32_t taken = 0;
        bool movable = true;
        for (Unit unit = block; unit < block + block_units();) {
            if (map_.is_free(unit)) {
                unit += 1u << map_.free_level(unit);
                continue;
            }
            const Parts allocated = map_.whole() & ~map_.free_parts(unit);
            taken += Memmap::count_of(allocated);
            movable = movable && map_.movable_parts(unit) == allocated;
            ++unit;
        }
        allocated_.resize(block / block_units() + 1);
        allocated_[block / block_units()] = taken;
        if (taken == 0 || taken == block_frames) return;
        free_in_broken_ += block_frames - taken;
        if (movable) mendable_.push_back({block, taken});
    }

    Memory& memory_;
    Memmap& map_;
    std::vector<Block> mendable_;
    std::vector<std::uint32_t> allocated_;  // [4 MiB block] frames
    std::uint32_t free_in_broken_ = 0;      // frames
};

// A set of slots, with one bit for each.
class Slots {
  public:
    explicit Slots(std::uint32_t count) : words_((count + 63) / 64) {}
    void set(std::uint32_t first, std::uint32_t count) {
        for_words(first, count, [this](std::size_t at, std::uint64_t mask) { words_[at] |= mask; });
    }
    // Sets some slots of a unit.
    void set_parts(std::uint32_t first, Parts parts) { words_[first / 64] |= parts << first % 64; }
    // Calls visit(word, mask) for the words of [first, first + count), an aligned power of two.
    template <class Visit>
    static void for_words(std::uint32_t first, std::uint32_t count, Visit&& visit) {
        if (count < 64) return visit(first / 64, ((1ull << count) - 1) << first % 64);
        for (std::uint32_t at = first; at < first + count; at += 64) visit(at / 64, ~0ull);
    }
    [[nodiscard]] std::uint64_t word(std::size_t at) const { return words_[at]; }

  private:
    std::vector<std::uint64_t> words_;
};

// Steps 3 and 4, for one NUMA node.
class CacheSort {
  public:
    CacheSort(const Memory& memory, unsigned numa, std::uint32_t slots)
        : slots_(slots), allocated_(slots_), own_(slots_) {
        const Memmap& map = memory.map();
        for (const Zone& zone : memory.zones()) {
            if (zone.spec().numa != numa) continue;
            for (Unit unit = zone.begin(); unit < zone.end();) {
                if (map.is_free(unit)) {
                    unit += 1u << map.free_level(unit);
                    continue;
                }
                allocated_.set_parts(slot_of(map, unit), map.allocated_parts(unit));
                ++unit;
            }
        }
    }

    void sort(Memmap& map, Memmap::List list, unsigned order) {
        std::vector<Unit> units = map.elements(list);
        std::sort(units.begin(), units.end());
        std::vector<Key> keys;
        keys.reserve(units.size());
        std::vector<std::uint32_t> turns(slots_ >> order);  // [group] blocks met
        for (const Unit unit : units) {
            const std::uint32_t group = slot_of(map, unit) >> order;
            const std::uint32_t turn = turns[group]++;
            const std::int32_t loss = turn == 0 ? -gain(group << order, 1u << order) : 0;
            keys.push_back({turn, loss, group, unit});
        }
        std::sort(keys.begin(), keys.end());
        for (std::size_t i = 0; i < keys.size(); ++i) {
            units[i] = keys[i].unit;
            own_.set(keys[i].group << order, 1u << order);
        }
        map.reorder(list, units);
    }

  private:
    struct Key {
        std::uint32_t turn;
        std::int32_t loss;  // of the first turn: gain, negated
        std::uint32_t group;
        Unit unit;
        friend auto operator<=>(const Key&, const Key&) = default;
    };

    // Counts 2 for each slot that nothing lies in, and 1 for each in which only allocated frames
    // do.
    [[nodiscard]] std::int32_t gain(std::uint32_t first, std::uint32_t count) const {
        int sum = 0;
        Slots::for_words(first, count, [&](std::size_t at, std::uint64_t mask) {
            const std::uint64_t open = ~own_.word(at) & mask;
            sum += std::popcount(open) + std::popcount(open & ~allocated_.word(at));
        });
        return sum;
    }

    [[nodiscard]] std::uint32_t slot_of(const Memmap& map, Unit unit) const {
        return map.frame_of(unit).raw() % slots_;
    }

    std::uint32_t slots_;
    Slots allocated_, own_;
};

}  // namespace

std::vector<Move> sort_for_cache(Memory& memory, std::uint32_t slots, bool evacuating,
                                 unsigned cpu) {
    if (slots == 0 || slots % (1u << max_order) != 0) {
        throw std::invalid_argument("slots: " + std::to_string(slots) +
                                    " is not a positive multiple of 1024 (4 MiB of cache)");
    }
    std::vector<Move> moves;
    Memmap& map = memory.map();
    memory.drain();
    for (unsigned numa = 0; numa < memory.numas(); ++numa) {
        if (evacuating) {
            Evacuation evacuation(memory, numa);
            for (const Zone& zone : memory.zones()) {
                if (zone.spec().numa == numa) evacuation.fill_dense_blocks_first(zone);
            }
            evacuation.run(cpu, moves);
            memory.drain();
        }
        CacheSort sort(memory, numa, slots);
        for (std::size_t i = memory.zones().size(); i-- > 0;) {
            const Zone& zone = memory.zones()[i];
            if (zone.spec().numa != numa) continue;
            for (unsigned order = 0; order < map.grain_order(); ++order) {
                sort.sort(map, zone.parts_list(order, MigrateType::movable), map.grain_order());
            }
            for (unsigned level = 0; level < map.levels(); ++level) {
                sort.sort(map, zone.list(level, MigrateType::movable), level + map.grain_order());
            }
            for (const MigrateType type : {MigrateType::reclaimable, MigrateType::unmovable}) {
                for (unsigned level = map.levels(); level-- > 0;) {
                    sort.sort(map, zone.list(level, type), level + map.grain_order());
                }
                for (unsigned order = map.grain_order(); order-- > 0;) {
                    sort.sort(map, zone.parts_list(order, type), map.grain_order());
                }
            }
        }
    }
    return moves;
}

}  // namespace pagelens
