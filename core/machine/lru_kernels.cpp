#include "core/machine/lru_kernels.hpp"

#include <immintrin.h>

#include <bit>
#include <initializer_list>

namespace pagelens {
namespace {

// What every version does for each line: find the entry's place in its row, or the last one; note
// what is pushed out; shift what is before it by one and put the entry first.

LruResult access_scalar(std::uint32_t* rows, unsigned ways, std::uint64_t lines,
                        std::uint32_t entry, std::uint32_t* evicted) {
    LruResult result{0, 0};
    for (; lines != 0; lines &= lines - 1) {
        const auto line = static_cast<unsigned>(std::countr_zero(lines));
        std::uint32_t* row = rows + line * lru_row;
        unsigned place = 0;
        while (place < ways && ((row[place] ^ entry) & lru_tag) != 0) ++place;
        const bool hit = place < ways;
        if (!hit) --place;
        const std::uint32_t old = row[place];
        for (unsigned way = place; way > 0; --way) row[way] = row[way - 1];
        row[0] = entry | (hit ? old & lru_dirty : 0);
        if (hit) continue;
        result.missed |= 1ull << line;
        if ((old & lru_dirty) == 0) continue;
        result.dirty |= 1ull << line;
        evicted[line] = old;
    }
    return result;
}

__attribute__((target("avx512f"))) LruResult access_avx512(std::uint32_t* rows, unsigned ways,
                                                           std::uint64_t lines, std::uint32_t entry,
                                                           std::uint32_t* evicted) {
    const __m512i tag = _mm512_set1_epi32(static_cast<int>(entry & lru_tag));
    const __m512i tag_bits = _mm512_set1_epi32(static_cast<int>(lru_tag));
    const unsigned last = 1u << (ways - 1);  // where a miss puts its entry
    LruResult result{0, 0};
    for (; lines != 0; lines &= lines - 1) {
        const auto line = static_cast<unsigned>(std::countr_zero(lines));
        std::uint32_t* row = rows + line * lru_row;
        const __m512i old = _mm512_loadu_si512(row);
        const unsigned hits = _mm512_cmpeq_epi32_mask(_mm512_and_si512(old, tag_bits), tag);
        const unsigned place = static_cast<unsigned>(std::countr_zero(hits | last));
        const std::uint32_t pushed = row[place];
        const auto moved = static_cast<__mmask16>((2u << place) - 1);
        const std::uint32_t first = entry | (hits != 0 ? pushed & lru_dirty : 0);
        const __m512i now = _mm512_mask_alignr_epi32(old, moved, old, old, 15);
        _mm512_storeu_si512(row, _mm512_mask_set1_epi32(now, 1, static_cast<int>(first)));
        const std::uint64_t missed = hits == 0 ? 1 : 0;
        result.missed |= missed << line;
        result.dirty |= (missed & pushed >> 31) << line;
        evicted[line] = pushed;
    }
    return result;
}

// Shifting by one is reading the row from one word before it.
__attribute__((target("avx2"))) LruResult access_avx2(std::uint32_t* rows, unsigned ways,
                                                      std::uint64_t lines, std::uint32_t entry,
                                                      std::uint32_t* evicted) {
    const __m256i tag = _mm256_set1_epi32(static_cast<int>(entry & lru_tag));
    const __m256i tag_bits = _mm256_set1_epi32(static_cast<int>(lru_tag));
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const unsigned last = 1u << (ways - 1);
    LruResult result{0, 0};
    for (; lines != 0; lines &= lines - 1) {
        const auto line = static_cast<unsigned>(std::countr_zero(lines));
        std::uint32_t* row = rows + line * lru_row;
        auto* half = reinterpret_cast<__m256i*>(row);
        const __m256i low = _mm256_loadu_si256(half);
        const __m256i high = _mm256_loadu_si256(half + 1);
        const __m256i same_low = _mm256_cmpeq_epi32(_mm256_and_si256(low, tag_bits), tag);
        const __m256i same_high = _mm256_cmpeq_epi32(_mm256_and_si256(high, tag_bits), tag);
        const auto low_hits =
            static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(same_low)));
        const auto high_hits =
            static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(same_high)));
        const unsigned hits = low_hits | high_hits << 8;
        const int place = std::countr_zero(hits | last);
        const std::uint32_t pushed = row[place];
        const __m256i shifted_low = _mm256_loadu_si256(reinterpret_cast<__m256i*>(row - 1));
        const __m256i shifted_high = _mm256_loadu_si256(reinterpret_cast<__m256i*>(row + 7));
        const __m256i stay_low = _mm256_cmpgt_epi32(numbers, _mm256_set1_epi32(place));
        const __m256i stay_high = _mm256_cmpgt_epi32(numbers, _mm256_set1_epi32(place - 8));
        _mm256_storeu_si256(half, _mm256_blendv_epi8(shifted_low, low, stay_low));
        _mm256_storeu_si256(half + 1, _mm256_blendv_epi8(shifted_high, high, stay_high));
        row[0] = entry | (hits != 0 ? pushed & lru_dirty : 0);
        const std::uint64_t missed = hits == 0 ? 1 : 0;
        result.missed |= missed << line;
        result.dirty |= (missed & pushed >> 31) << line;
        evicted[line] = pushed;
    }
    return result;
}

}  // namespace

LruKernel lru_kernel(std::string_view version) {
    if (version == "avx512") return __builtin_cpu_supports("avx512f") ? access_avx512 : nullptr;
    if (version == "avx2") return __builtin_cpu_supports("avx2") ? access_avx2 : nullptr;
    return version == "scalar" ? access_scalar : nullptr;
}

LruKernel lru_kernel() {
    for (const std::string_view version : {"avx512", "avx2"}) {
        if (const LruKernel kernel = lru_kernel(version)) return kernel;
    }
    return access_scalar;
}

}  // namespace pagelens
