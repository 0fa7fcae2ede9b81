// One array of translations: set-associative (or of one set: fully associative), LRU. The arrays of
// a TLB's levels and its paging-structure caches are all of this kind.
//
// A set is a row of 64-bit keys (0 is empty). What is looked up and not found is always brought in
// by what follows (the second level, the walk), in place of the key used longest ago, so one step
// does both.
#pragma once

#include <smmintrin.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

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
          keys_(std::size_t{sets()} * stride_),
          order_(sets(), ways) {
        assert(entries % ways == 0 && std::has_single_bit(sets()));
    }

    [[nodiscard]] std::uint32_t ways() const { return ways_; }
    [[nodiscard]] std::uint32_t sets() const { return set_mask_ + 1; }

    // Whether `number` (of a page or of a table) of that kind (1 to 7) was there; now it is, and
    // the latest. Numbers have 61 bits.
    [[gnu::always_inline]] bool use(std::uint64_t number, unsigned kind) {
        assert(kind >= 1 && kind <= kinds && number >> (64 - kind_bits) == 0);
        const std::uint64_t key = number << kind_bits | kind;
        if (key == latest_) return true;  // and the latest of its set already
        latest_ = key;
        const std::size_t set = (number ^ number >> fold_bits_) & set_mask_;
        std::uint64_t* const row = keys_.data() + set * stride_;
        std::uint32_t way = find(row, key);
        const bool found = way != no_way;
        if (!found) {
            way = order_.oldest(set);
            row[way] = key;
        }
        order_.renew(set, way);
        return found;
    }

    // Forgets the keys for which gone(number, kind).
    template <class Gone>
    void forget_if(Gone&& gone) {
        latest_ = 0;
        for (std::size_t set = 0; set <= set_mask_; ++set) {
            std::uint64_t* const row = keys_.data() + set * stride_;
            for (std::uint32_t way = 0; way < ways_; ++way) {
                if (row[way] == 0 ||
                    !gone(row[way] >> kind_bits, static_cast<unsigned>(row[way] & kinds)))
                    continue;
                row[way] = 0;  // the first to be taken again
                order_.retire(set, way);
            }
        }
    }

  private:
    static constexpr unsigned kind_bits = 3;
    static constexpr unsigned kinds = (1u << kind_bits) - 1;
    static constexpr unsigned no_fold = 63;
    static constexpr std::uint32_t step = 4;  // ways looked at together
    static constexpr std::uint32_t no_way = ~std::uint32_t{0};

    // The way of `key`. Places that a row only has to fill its steps are empty.
    [[gnu::always_inline]] std::uint32_t find(const std::uint64_t* row, std::uint64_t key) const {
        const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(key));
        std::uint32_t found = 0;
        switch (stride_) {
            case 16:
                found |= same(row + 12, wanted) << 12;
                [[fallthrough]];
            case 12:
                found |= same(row + 8, wanted) << 8;
                [[fallthrough]];
            case 8:
                found |= same(row + 4, wanted) << 4;
                [[fallthrough]];
            case 4:
                found |= same(row, wanted);
                return found == 0 ? no_way : static_cast<std::uint32_t>(std::countr_zero(found));
            default:
                break;
        }
        for (std::uint32_t way = 0; way < stride_; way += step) {
            found = same(row + way, wanted);
            if (found != 0) return way + static_cast<std::uint32_t>(std::countr_zero(found));
        }
        return no_way;
    }
    // Which of `step` keys are the one wanted.
    static std::uint32_t same(const std::uint64_t* keys, __m128i wanted) {
        const __m128i low = _mm_cmpeq_epi64(load(keys), wanted);
        const __m128i high = _mm_cmpeq_epi64(load(keys + 2), wanted);
        return static_cast<std::uint32_t>(
            _mm_movemask_ps(_mm_castsi128_ps(_mm_packs_epi32(low, high))));
    }
    static __m128i load(const std::uint64_t* from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    }

    std::uint32_t ways_;
    std::uint32_t stride_;  // keys of a row in memory: a multiple of `step`
    std::uint32_t set_mask_;
    unsigned fold_bits_;
    std::uint64_t latest_ = 0;  // the key used last
    std::vector<std::uint64_t> keys_;
    LruOrder order_;
};

}  // namespace pagelens
