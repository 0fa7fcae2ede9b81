// A TLB in the plainest way: a list a set, most recently used first; walks from the form's words.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "core/machine/tlb.hpp"

namespace pagelens {

class ReferenceTlb {
  public:
    explicit ReferenceTlb(const TlbForm& form) : form_(form), held_(form.arrays.size()) {}

    // The levels of the tables that were read, from the root down.
    std::vector<unsigned> access(std::uint64_t address, PageSize size, TlbCounters& counters) {
        const auto s = static_cast<unsigned>(size);
        ++counters.lookups;
        if (form_.ideal || in_level(1, address, s)) return {};
        if (in_level(2, address, s)) {
            ++counters.stlb_hits[s];
            return {};
        }
        std::vector<unsigned> read;
        for (unsigned level = 1 + s; level <= 4; ++level) {
            if (level > 1 + s && entry_cached(level, address)) break;
            read.insert(read.begin(), level);
        }
        ++counters.walks[s][read.front() - 1];
        return read;
    }

    void invalidate(std::uint64_t first, std::uint64_t count) {
        if (count == 0) return;
        for (auto& array : held_)
            for (auto& [set, keys] : array)
                keys.remove_if([=](const Key& key) {
                    const auto [what, number] = key;
                    if (what == directory) return true;
                    const std::uint64_t pages = std::uint64_t{1} << 9 * what;
                    return number * pages < first + count && first < (number + 1) * pages;
                });
        structures_.clear();
    }

  private:
    static constexpr unsigned directory = 9;               // any number but those of page sizes
    using Key = std::pair<unsigned, std::uint64_t>;        // what, its number
    using Sets = std::map<std::uint64_t, std::list<Key>>;  // those ever used

    static bool use(Sets& sets, TlbShape shape, bool folded, Key key) {
        const std::uint64_t count = shape.entries / shape.ways;
        const std::uint64_t number = key.second;
        std::list<Key>& set = sets[(folded ? number ^ number / count : number) % count];
        for (auto at = set.begin(); at != set.end(); ++at) {
            if (*at != key) continue;
            set.splice(set.begin(), set, at);
            return true;
        }
        set.push_front(key);
        if (set.size() > shape.ways) set.pop_back();
        return false;
    }

    // Looked up in the array of that level that is for the size, if there is one.
    bool in_level(unsigned level, std::uint64_t address, unsigned size) {
        for (std::size_t i = 0; i < form_.arrays.size(); ++i) {
            const TlbForm::Array& array = form_.arrays[i];
            if (array.level != level || !(array.holds[size] || array.pieces[size])) continue;
            unsigned what = size;
            while (!array.holds[what]) --what;  // of a large page a piece
            return use(held_[i], array.shape, array.folded, {what, address >> (12 + 9 * what)});
        }
        return false;
    }

    bool entry_cached(unsigned level, std::uint64_t address) {
        const std::uint64_t number = address >> (12 + 9 * (level - 1));
        for (std::size_t i = 0; i < form_.arrays.size(); ++i) {
            const TlbForm::Array& array = form_.arrays[i];
            if (level == 2 && array.directory)
                return use(held_[i], array.shape, array.folded, {directory, number});
        }
        const TlbShape shape = form_.structure_caches[level - 1];
        return shape.entries > 0 && use(structures_[level], shape, false, {directory, number});
    }

    TlbForm form_;
    std::vector<Sets> held_;
    std::map<unsigned, Sets> structures_;
};

}  // namespace pagelens
