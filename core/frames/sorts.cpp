#include "core/frames/sorts.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagelens {
namespace {

void check_slots(std::uint32_t slots) {
    if (slots == 0 || slots % (1u << max_order) != 0) {
        throw std::invalid_argument("slots: " + std::to_string(slots) +
                                    " is not a positive multiple of 1024 (4 MiB of cache)");
    }
}

// Calls visit(list, type, whether its blocks are the largest), the smallest orders first.
template <class Visit>
void for_lists(const Memmap& map, const Zone& zone, Visit&& visit) {
    for (unsigned of = 0; of < migrate_types; ++of) {
        const auto type = static_cast<MigrateType>(of);
        for (unsigned order = 0; order < map.grain_order(); ++order) {
            visit(zone.parts_list(order, type), type, false);
        }
        for (unsigned level = 0; level < map.levels(); ++level) {
            visit(zone.list(level, type), type, level + 1 == map.levels());
        }
    }
}

void sort_list(Memmap& map, Memmap::List list) {
    std::vector<Unit> blocks = map.elements(list);
    std::sort(blocks.begin(), blocks.end());
    map.reorder(list, blocks);
}

// Frames that come before a block, by the 2 MiB slot in which they begin. One table a NUMA node,
// zones from the lowest.
class Buckets {
  public:
    explicit Buckets(std::uint32_t slots) : slots_(slots), before_(slots / pageblock_frames + 1) {}

    void count(const Memmap& map, Memmap::List list) {
        for (const Unit unit : map.elements(list)) {
            before_[slot(map, unit)] += map.free_frames(unit);
        }
    }
    void sort(Memmap& map, Memmap::List list) {
        std::array<std::vector<Unit>, 4> buckets;
        for (const Unit unit : map.elements(list)) {
            const std::uint32_t at = slot(map, unit);
            buckets[bucket(before_[at])].push_back(unit);
            before_[at] += pageblock_frames;
            before_[at + 1] += pageblock_frames;
        }
        std::vector<Unit> order;
        for (const auto& blocks : buckets)
            order.insert(order.end(), blocks.rbegin(), blocks.rend());
        map.reorder(list, order);
    }

  private:
    [[nodiscard]] std::uint32_t slot(const Memmap& map, Unit unit) const {
        return map.frame_of(unit).raw() % slots_ / pageblock_frames;
    }
    static std::size_t bucket(std::uint32_t frames) {
        return frames == 0                     ? 0
               : frames < pageblock_frames     ? 1
               : frames < 2 * pageblock_frames ? 2
                                               : 3;
    }

    std::uint32_t slots_;
    std::vector<std::uint32_t> before_;
};

void shuffle_on_free(Zone& zone, Random& random) {
    zone.shuffle_on_free(random);
    for (int skipped = 0; skipped < 4; ++skipped) random.bits64();  // zones draw differently
}

}  // namespace

void sort_by_address(Memory& memory) {
    for (const Zone& zone : memory.zones()) {
        for_lists(memory.map(), zone,
                  [&](Memmap::List list, MigrateType, bool) { sort_list(memory.map(), list); });
    }
}

void sort_by_buckets(Memory& memory, std::uint32_t slots) {
    check_slots(slots);
    Memmap& map = memory.map();
    std::vector<Buckets> buckets(memory.numas(), Buckets(slots));
    for (const Zone& zone : memory.zones()) {
        Buckets& of = buckets[zone.spec().numa];
        for_lists(map, zone, [&](Memmap::List list, MigrateType type, bool largest) {
            if (type != MigrateType::movable || !largest) sort_list(map, list);
            if (type != MigrateType::movable) return;
            if (largest) {
                of.sort(map, list);
            } else {
                of.count(map, list);
            }
        });
    }
}

void shuffle(Memory& memory, Random& random) {
    constexpr int retries = 10;  // SHUFFLE_RETRY: a partner that is not free is drawn again
    Memmap& map = memory.map();
    const unsigned top = map.levels() - 1;
    for (Zone& zone : memory.zones()) {
        const std::uint32_t blocks = (zone.end() - zone.begin()) >> top;
        std::vector<Unit> at;  // the blocks of all types' lists, one list after the other
        std::vector<std::uint32_t> place(blocks + 1);
        std::array<std::size_t, migrate_types + 1> begin{};
        for (unsigned type = 0; type < migrate_types; ++type) {
            for (const Unit unit : map.elements(zone.list(top, static_cast<MigrateType>(type)))) {
                place[(unit - zone.begin()) >> top] = static_cast<std::uint32_t>(at.size());
                at.push_back(unit);
            }
            begin[type + 1] = at.size();
        }
        const auto free = [&](std::uint32_t block) {
            return map.is_free(zone.begin() + (block << top), top);
        };
        for (std::uint32_t i = 0; i < blocks; ++i) {
            if (!free(i)) continue;
            for (int retry = 0; retry < retries; ++retry) {
                const std::uint32_t j = random.below(blocks);
                if (j == i || !free(j)) continue;
                if (map.type_of(zone.begin() + (i << top)) ==
                    map.type_of(zone.begin() + (j << top))) {
                    std::swap(at[place[i]], at[place[j]]);
                    std::swap(place[i], place[j]);
                }
                break;
            }
        }
        for (unsigned type = 0; type < migrate_types; ++type) {
            map.reorder(zone.list(top, static_cast<MigrateType>(type)),
                        {at.begin() + static_cast<std::ptrdiff_t>(begin[type]),
                         at.begin() + static_cast<std::ptrdiff_t>(begin[type + 1])});
        }
        shuffle_on_free(zone, random);
    }
}

void shuffle_on_free(Memory& memory, Random& random) {
    for (Zone& zone : memory.zones()) shuffle_on_free(zone, random);
}

}  // namespace pagelens
