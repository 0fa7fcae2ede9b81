// A hierarchy of caches written to be obviously right: who holds a line is found by looking into
// every cache. What core/machine/cache_hierarchy.hpp must equal; docs/caches.md has the rules.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/random/split_mix64.hpp"

namespace pagelens::reference {

struct Held {
    std::uint64_t line = 0;
    bool valid = false, dirty = false;
    std::uint64_t used = 0;  // when
};

// One set; an entry keeps its way.
class Set {
  public:
    Set(std::size_t ways, Replacement replacement, std::uint64_t draws)
        : ways_(ways), replacement_(replacement), draws_(draws) {}

    Held* find(std::uint64_t line) {
        const auto at = std::find_if(ways_.begin(), ways_.end(),
                                     [&](const Held& h) { return h.valid && h.line == line; });
        return at == ways_.end() ? nullptr : &*at;
    }
    void use(Held& held, bool dirty) {
        held.dirty |= dirty;
        held.used = ++clock_;
        // On the way down to this one, the tree points to the other half.
        const auto way = static_cast<std::size_t>(&held - ways_.data());
        std::size_t first = 0;
        for (std::size_t width = std::bit_ceil(ways_.size()); width > 1; width /= 2) {
            const bool right = way >= first + width / 2;
            points_right_[{first, width}] = !right;
            if (right) first += width / 2;
        }
    }
    Held fill(std::uint64_t line, bool dirty) {
        Held& place = ways_[next_way()];
        const Held victim = place;
        place = {line, true, false, 0};
        use(place, dirty);
        return victim;
    }
    bool remove(std::uint64_t line) {
        Held* const held = find(line);
        if (held == nullptr) return false;
        const bool dirty = held->dirty;
        *held = Held{};
        freed_.push_back(static_cast<std::size_t>(held - ways_.data()));
        return dirty;
    }
    void free_last_first() { last_freed_first_ = true; }
    [[nodiscard]] const std::vector<Held>& ways() const { return ways_; }

  private:
    std::size_t next_way() {
        if (last_freed_first_) {  // as a fully associative cache numbers its places
            while (!freed_.empty()) {
                const std::size_t way = freed_.back();
                freed_.pop_back();
                if (!ways_[way].valid) return way;
            }
        }
        const auto empty =
            std::find_if(ways_.begin(), ways_.end(), [](auto& h) { return !h.valid; });
        if (empty != ways_.end()) return static_cast<std::size_t>(empty - ways_.begin());
        if (replacement_ == replacement_by<RandomVictim>)
            return SplitMix64::below(draws_, static_cast<std::uint32_t>(ways_.size()));
        if (replacement_ == replacement_by<TreePlru>)
            return pointed_at(0, std::bit_ceil(ways_.size()));
        const auto oldest = std::min_element(ways_.begin(), ways_.end(),
                                             [](auto& a, auto& b) { return a.used < b.used; });
        return static_cast<std::size_t>(oldest - ways_.begin());
    }
    std::size_t pointed_at(std::size_t first, std::size_t width) {
        if (width == 1) return first;
        const std::size_t right = first + width / 2;
        const bool there = points_right_[{first, width}] && right < ways_.size();
        return pointed_at(there ? right : first, width / 2);
    }

    std::vector<Held> ways_;
    Replacement replacement_;
    std::uint64_t draws_, clock_ = 0;
    std::map<std::pair<std::size_t, std::size_t>, bool> points_right_;  // nodes: first way, width
    std::vector<std::size_t> freed_;
    bool last_freed_first_ = false;
};

class Cache {
  public:
    Cache(const CacheGeometry& its, std::uint32_t slices, const std::optional<AddressHash>& hash,
          std::uint64_t seed)
        : sets_(its.fully_associative ? 1 : its.sets), slices_(hash) {
        const std::uint64_t rows = its.fully_associative ? 1 : std::uint64_t{its.sets} * slices;
        const std::uint64_t ways =
            its.fully_associative ? its.lines() * slices : std::uint64_t{its.ways};
        for (std::uint64_t row = 0; row < rows; ++row) {
            all_.emplace_back(ways, its.replacement, SplitMix64::begin(seed, row));
            if (its.fully_associative) all_.back().free_last_first();
        }
    }
    Held* find(std::uint64_t line) { return set_of(line).find(line); }
    void use(Held& held, bool dirty) { set_of(held.line).use(held, dirty); }
    Held fill(std::uint64_t line, bool dirty) { return set_of(line).fill(line, dirty); }
    bool remove(std::uint64_t line) { return set_of(line).remove(line); }
    [[nodiscard]] const std::vector<Set>& sets() const { return all_; }

  private:
    Set& set_of(std::uint64_t line) {
        if (all_.size() == 1) return all_[0];
        const std::uint64_t slice = slices_ ? (*slices_)(line * 64) : 0;
        return all_[slice * sets_ + line % sets_];
    }
    std::uint64_t sets_;
    std::optional<AddressHash> slices_;
    std::vector<Set> all_;
};

class Hierarchy {
  public:
    explicit Hierarchy(const HierarchyModel& model)
        : m_(model),
          tiles_((model.cores + model.l2.shared_by - 1) / model.l2.shared_by),
          counts(std::size_t{model.cores} * cache_counters) {
        const auto seed = [&](unsigned level, std::uint64_t index) {
            return SplitMix64::begin(model.seed, std::uint64_t{level} << 32 | index);
        };
        const std::uint32_t slices = model.slices ? model.slices->values() : 1;
        for (std::uint32_t tile = 0; tile < tiles_; ++tile)
            l2_.emplace_back(model.l2.geometry, 1, std::nullopt, seed(2, tile));
        if (model.l1)
            for (std::uint32_t i = 0; i < tiles_ * l1s(); ++i)
                l1_.emplace_back(model.l1->geometry, 1, std::nullopt, seed(1, i));
        if (model.l3) l3_.emplace(model.l3->geometry, slices, model.slices, seed(3, 0));
        if (model.snoop_filter && !model.snoop_filter->fully_associative)
            filter_.emplace(*model.snoop_filter, slices, model.slices, seed(4, 0));
    }

    void access(std::uint64_t line, std::uint32_t core, AccessKind kind) {
        core_ = core;
        tile_ = core / m_.l2.shared_by;
        count(CacheCounter::accesses);
        switch (kind) {
            case AccessKind::read:
                return load_or_store(line, false);
            case AccessKind::write:
                return load_or_store(line, true);
            case AccessKind::write_back:
                return write_back(line);
            case AccessKind::stream_store: {
                bool dirty = false;
                for (std::uint32_t tile = 0; tile < tiles_; ++tile) dirty |= take(tile, line);
                if (l3_) dirty |= l3_->remove(line);
                forget_unheld(line);
                if (dirty) memory(line, true);
                memory(line, true);
            }
        }
    }

    [[nodiscard]] bool tile_holds(std::uint32_t tile, std::uint64_t line) {
        return l2_[tile].find(line) != nullptr || l1s_hold(tile, line);
    }
    [[nodiscard]] bool l3_holds(std::uint64_t line) { return l3_ && l3_->find(line) != nullptr; }
    // Every line that lies in a private cache, and whether it is dirty in one: (tile, line).
    [[nodiscard]] std::map<std::pair<std::uint32_t, std::uint64_t>, bool> held() const {
        std::map<std::pair<std::uint32_t, std::uint64_t>, bool> all;
        const auto add = [&](std::uint32_t tile, const Cache& cache) {
            for (const Set& set : cache.sets())
                for (const Held& held : set.ways())
                    if (held.valid) all[{tile, held.line}] |= held.dirty;
        };
        for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
            add(tile, l2_[tile]);
            for (std::uint32_t i = 0; i < l1s(); ++i) add(tile, l1_[tile * l1s() + i]);
        }
        return all;
    }
    [[nodiscard]] bool has_entry(std::uint64_t line) { return filter_->find(line) != nullptr; }
    [[nodiscard]] const Cache& l3() const { return *l3_; }

  private:
    HierarchyModel m_;
    std::uint32_t tiles_, core_ = 0, tile_ = 0;
    std::vector<Cache> l1_, l2_;
    std::optional<Cache> l3_, filter_;

  public:
    std::vector<std::uint64_t> counts;  // [core][counter]
    MemoryTraffic traffic;

  private:
    enum class Want { share, own, own_whole };

    [[nodiscard]] std::uint32_t l1s() const {
        return m_.l1 ? m_.l2.shared_by / m_.l1->shared_by : 0;
    }
    void count(CacheCounter counter) { count(core_, counter); }
    void count(std::uint32_t core, CacheCounter counter) {
        ++counts[core * cache_counters + static_cast<std::size_t>(counter)];
    }
    void memory(std::uint64_t line, bool write) {
        count(write ? CacheCounter::dram_writes : CacheCounter::dram_reads);
        traffic.emplace_back(line, core_, write);
    }
    bool l1s_hold(std::uint32_t tile, std::uint64_t line) {
        for (std::uint32_t i = 0; i < l1s(); ++i)
            if (l1_[tile * l1s() + i].find(line) != nullptr) return true;
        return false;
    }
    bool anyone_holds(std::uint64_t line) {
        for (std::uint32_t tile = 0; tile < tiles_; ++tile)
            if (tile_holds(tile, line)) return true;
        return false;
    }
    bool take(std::uint32_t tile, std::uint64_t line) {
        bool dirty = l2_[tile].remove(line);
        for (std::uint32_t i = 0; i < l1s(); ++i) dirty |= l1_[tile * l1s() + i].remove(line);
        return dirty;
    }
    // From all tiles, because an entry that speaks for the line went.
    bool take_back(std::uint64_t line) {
        bool dirty = false;
        for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
            if (!tile_holds(tile, line)) continue;
            count(tile * m_.l2.shared_by, CacheCounter::l2_back_invalidations);
            dirty |= take(tile, line);
        }
        return dirty;
    }
    // The snoop filter has an entry for what some private cache holds, and no other.
    void forget_unheld(std::uint64_t line) {
        if (filter_ && !anyone_holds(line)) filter_->remove(line);
    }
    // A request that the filter sees: the entry is used, or made; what that evicts.
    Held see(std::uint64_t line) {
        if (!filter_) return {};
        if (Held* const entry = filter_->find(line)) {
            filter_->use(*entry, false);
            return {};
        }
        return filter_->fill(line, false);
    }

    void load_or_store(std::uint64_t line, bool write) {
        if (!m_.l1) {
            at_l2(line, write, false);
            return;
        }
        Cache& l1 = l1_[core_ / m_.l1->shared_by];
        if (Held* const held = l1.find(line)) {
            const bool owned = held->dirty;
            l1.use(*held, write);
            if (write && !owned) {
                from_siblings(line, true);
                own(line);
            }
            return;
        }
        count(CacheCounter::l1d_replacement);
        const bool given = from_siblings(line, write);
        const bool dirty = at_l2(line, write, given);
        const Held victim = l1.fill(line, write || dirty);
        if (victim.valid) leaves_l1(victim);
    }

    bool from_siblings(std::uint64_t line, bool write) {
        bool given = false;
        for (std::uint32_t i = tile_ * l1s(); i < (tile_ + 1) * l1s(); ++i) {
            if (i == core_ / m_.l1->shared_by) continue;
            Held* const held = l1_[i].find(line);
            if (held == nullptr) continue;
            given = true;
            const bool dirty = held->dirty;
            held->dirty = false;
            if (write) l1_[i].remove(line);
            if (dirty) leaves_l1({line, true, true, 0});
        }
        return given;
    }

    bool at_l2(std::uint64_t line, bool write, bool given) {
        count(CacheCounter::l2_references);
        const bool exclusive = m_.l2_inclusion == Inclusion::exclusive;
        Cache& l2 = l2_[tile_];
        if (Held* const held = l2.find(line)) {
            const bool dirty = held->dirty;
            l2.use(*held, write && !m_.l1);
            if (exclusive) l2.remove(line);
            if (write && !dirty) own(line);
            return exclusive && dirty;
        }
        count(CacheCounter::l2_misses);
        const bool dirty = request(line, write ? Want::own : Want::share, given);
        if (exclusive) return dirty;
        count(CacheCounter::l2_lines_in);
        const Held victim = l2.fill(line, dirty || (write && !m_.l1));
        if (victim.valid) leaves_l2(victim);
        return false;
    }

    void write_back(std::uint64_t line) {
        count(CacheCounter::l1d_writebacks);
        Cache& l2 = l2_[tile_];
        if (Held* const held = l2.find(line)) {
            const bool owned = held->dirty;
            l2.use(*held, true);
            if (!owned) own(line);
            return;
        }
        request(line, Want::own_whole, false);
        count(CacheCounter::l2_lines_in);
        const Held victim = l2.fill(line, true);
        if (victim.valid) leaves_l2(victim);
    }

    void leaves_l1(const Held& victim) {
        if (victim.dirty) count(CacheCounter::l1d_writebacks);
        if (victim.dirty || m_.l2_inclusion == Inclusion::exclusive) {
            if (Held* const held = l2_[tile_].find(victim.line)) {
                l2_[tile_].use(*held, true);
            } else {
                count(CacheCounter::l2_lines_in);
                const Held next = l2_[tile_].fill(victim.line, victim.dirty);
                if (next.valid) leaves_l2(next);
            }
        }
        forget_unheld(victim.line);
    }

    void leaves_l2(Held victim) {
        if (m_.l2_inclusion == Inclusion::inclusive)
            for (std::uint32_t i = 0; i < l1s(); ++i)
                victim.dirty |= l1_[tile_ * l1s() + i].remove(victim.line);
        if (victim.dirty) count(CacheCounter::l2_writebacks);
        forget_unheld(victim.line);
        cast_out(victim.line, victim.dirty);
    }

    bool request(std::uint64_t line, Want want, bool given) {
        std::vector<std::uint32_t> others;
        for (std::uint32_t tile = 0; tile < tiles_; ++tile)
            if (tile != tile_ && tile_holds(tile, line)) others.push_back(tile);
        const Held evicted = see(line);
        bool dirty_elsewhere = false;
        for (const std::uint32_t tile : others) {
            if (want != Want::share) {
                dirty_elsewhere |= take(tile, line);
                continue;
            }
            Held* const in_l2 = l2_[tile].find(line);
            if (in_l2 != nullptr) dirty_elsewhere |= std::exchange(in_l2->dirty, false);
            for (std::uint32_t i = 0; i < l1s(); ++i)
                if (Held* const in_l1 = l1_[tile * l1s() + i].find(line))
                    dirty_elsewhere |= std::exchange(in_l1->dirty, false);
        }
        bool hands_over = want != Want::share && dirty_elsewhere;
        const bool found = l3_holds(line);
        if (l3_) {
            const Inclusion its = m_.l3->inclusion;
            if (found) {
                const bool was_dirty = l3_->find(line)->dirty;
                l3_->use(*l3_->find(line), false);
                if (its == Inclusion::exclusive ||
                    (its == Inclusion::victim && want != Want::share)) {
                    l3_->remove(line);
                    hands_over |= was_dirty;
                }
            } else if (its == Inclusion::inclusive) {
                Held victim = l3_->fill(line, false);
                // An entry that the filter evicts in this moment still speaks for its line.
                const bool evicted_too = evicted.valid && evicted.line == victim.line;
                if (victim.valid) {
                    if (!evicted_too) {
                        victim.dirty |= take_back(victim.line);
                        forget_unheld(victim.line);
                    }
                    leaves_l3(victim);
                }
            }
        }
        if (want != Want::own_whole) {
            if (l3_) count(found ? CacheCounter::l3_hits : CacheCounter::l3_misses);
            if (!found && (given || !others.empty()))
                count(CacheCounter::core_forwards);
            else if (!found)
                memory(line, false);
        }
        if (want == Want::share && dirty_elsewhere) cast_out(line, true);
        if (evicted.valid) {
            count(CacheCounter::sf_evictions);
            cast_out(evicted.line, take_back(evicted.line));
        }
        return hands_over;
    }

    void own(std::uint64_t line) {
        see(line);
        for (std::uint32_t tile = 0; tile < tiles_; ++tile)
            if (tile != tile_) take(tile, line);
        if (l3_ && m_.l3->inclusion != Inclusion::inclusive) l3_->remove(line);
    }

    void cast_out(std::uint64_t line, bool dirty) {
        if (l3_) {
            const Inclusion its = m_.l3->inclusion;
            if (Held* const held = l3_->find(line); held != nullptr) {
                if (dirty || its != Inclusion::inclusive) l3_->use(*held, dirty);
                return;
            }
            if (its == Inclusion::victim || (its == Inclusion::exclusive && !anyone_holds(line)))
                return leaves_l3(l3_->fill(line, dirty));
        }
        if (dirty) memory(line, true);
    }

    void leaves_l3(const Held& victim) {
        if (!victim.valid || !victim.dirty) return;
        count(CacheCounter::llc_victims_m);
        memory(victim.line, true);
    }
};

}  // namespace pagelens::reference
