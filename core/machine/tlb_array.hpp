// One array of translations: set-associative (or of one set: fully associative), LRU. The arrays of
// a TLB's levels and its paging-structure caches are all of this kind.
//
// A set has a 64-bit key for each way, and a row of marks, 16 bits of each key's hash: eight of
// them are compared at once, and a key is looked at only where its mark is the one wanted. A single
// set of many ways has an index of its keys instead. What is looked up and not found is always
// brought in by what follows (the second level, the walk), in place of the key used longest ago, so
// one step does both.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "core/machine/key_index.hpp"
#include "core/machine/lru_order.hpp"

namespace pagelens {

class TlbArray {
  public:
    // `entries` / `ways` a power of two of sets. `folded`: the set is the number's low bits xor the
    // next as many, as in the second level of Skylake.
    TlbArray(std::uint32_t entries, std::uint32_t ways, bool folded)
        : ways_(ways),
          stride_((ways + step - 1) / step * step),
          set_mask_(entries / ways - 1),
          fold_bits_(folded ? static_cast<unsigned>(std::bit_width(set_mask_)) : no_fold),
          marks_(std::size_t{sets()} * stride_),
          keys_(entries),
          order_(sets(), ways),
          index_(sets() == 1 && ways > step ? ways : 0) {
        assert(entries % ways == 0 && std::has_single_bit(sets()));
    }

    [[nodiscard]] std::uint32_t ways() const { return ways_; }
    [[nodiscard]] std::uint32_t sets() const { return set_mask_ + 1; }

    // Returns whether `number` (of a page or a table) of that kind (1 to 7) was there. Afterwards
    // it is, as the latest one. Numbers have 61 bits.
    [[gnu::always_inline]] bool use(std::uint64_t number, unsigned kind) {
        assert(kind >= 1 && kind <= kinds && number >> (64 - kind_bits) == 0);
        const std::uint64_t key = number << kind_bits | kind;
        if (key == latest_) return true;  // and the latest of its set already
        latest_ = key;
        if (index_.exists()) return use_indexed(key);
        const std::size_t set = (number ^ number >> fold_bits_) & set_mask_;
        std::uint16_t* const marks = marks_.data() + set * stride_;
        std::uint64_t* const keys = keys_.data() + set * ways_;
        const std::uint16_t mark = mark_of(key);
        const __m128i wanted = _mm_set1_epi16(static_cast<short>(mark));
        for (std::uint32_t first = 0; first < stride_; first += step) {
            for (std::uint32_t left = same(marks + first, wanted); left != 0; left &= left - 1) {
                const std::uint32_t way = first + static_cast<unsigned>(std::countr_zero(left));
                if (keys[way] != key) continue;
                order_.renew(set, way);
                return true;
            }
        }
        const std::uint32_t way = order_.renew_oldest(set);
        marks[way] = mark;
        keys[way] = key;
        return false;
    }

    // Forgets the keys for which gone(number, kind).
    template <class Gone>
    void forget_if(Gone&& gone) {
        latest_ = 0;
        for (std::size_t set = 0; set <= set_mask_; ++set) {
            const std::uint64_t* const keys = keys_.data() + set * ways_;
            for (std::uint32_t way = 0; way < ways_; ++way) {
                if (!holds_a_key(set, way) ||
                    !gone(keys[way] >> kind_bits, static_cast<unsigned>(keys[way] & kinds)))
                    continue;
                clear(set, way);
                order_.retire(set, way);  // the first to be taken again
            }
        }
    }

  private:
    static constexpr unsigned kind_bits = 3;
    static constexpr unsigned kinds = (1u << kind_bits) - 1;
    static constexpr unsigned no_fold = 63;
    static constexpr std::uint32_t step = 16;  // marks compared together

    [[gnu::always_inline]] bool use_indexed(std::uint64_t key) {
        std::uint64_t* const keys = keys_.data();
        if (const std::uint32_t way = index_.find(key, keys); way != KeyIndex::nowhere) {
            order_.renew(0, way);
            return true;
        }
        const std::uint32_t way = order_.renew_oldest(0);
        index_.put(way, key);
        keys[way] = key;
        return false;
    }

    [[nodiscard]] bool holds_a_key(std::size_t set, std::uint32_t way) const {
        return index_.exists() ? index_.holds_a_key(way) : marks_[set * stride_ + way] != 0;
    }
    void clear(std::size_t set, std::uint32_t way) {
        if (index_.exists())
            index_.clear(way);
        else
            marks_[set * stride_ + way] = 0;
    }

    // Never 0, which marks an empty way, and the places that a row only has to fill its steps.
    static std::uint16_t mark_of(std::uint64_t key) {
        return static_cast<std::uint16_t>(KeyIndex::hash(key) >> 48 | 1);
    }
    static std::uint32_t same(const std::uint16_t* marks, __m128i wanted) {
        const auto* here = reinterpret_cast<const __m128i*>(marks);
        const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(here), wanted);
        const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(here + 1), wanted);
        return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
    }

    std::uint32_t ways_;
    std::uint32_t stride_;  // marks of a row in memory: a multiple of `step`
    std::uint32_t set_mask_;
    unsigned fold_bits_;
    std::uint64_t latest_ = 0;  // the key used last
    std::vector<std::uint16_t> marks_;
    std::vector<std::uint64_t> keys_;
    LruOrder order_;
    KeyIndex index_;
    static_assert(KeyIndex::most_ways >= LruOrder::most_ways);
};

}  // namespace pagelens
