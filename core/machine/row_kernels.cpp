#include "core/machine/row_kernels.hpp"

#include <immintrin.h>

#include <bit>
#include <initializer_list>

namespace pagelens {
namespace {

RowResult access_scalar(std::uint8_t* row, unsigned ways, std::uint64_t lines, std::uint8_t entry,
                        Evicted& evicted) {
    RowResult result{0, 0};
    std::uint64_t victims = 0;
    for (; lines != 0; lines &= lines - 1) {
        const auto line = static_cast<unsigned>(std::countr_zero(lines));
        const std::uint64_t bit = 1ull << line;
        std::uint8_t carried = entry;  // what the next way receives
        bool hit = false;
        for (unsigned way = 0; way < ways && !hit; ++way) {
            std::uint8_t& here = row[way * 64 + line];
            const std::uint8_t old = here;
            here = carried;
            hit = (old & row_tag) == (entry & row_tag);
            if (hit) row[line] |= old & row_dirty;
            carried = old;
        }
        if (hit) continue;
        result.missed |= bit;
        if (carried == 0) continue;
        victims |= bit;
        if ((carried & row_dirty) != 0) result.dirty |= bit;
        evicted.entry[line] = carried;
    }
    if (result.missed != 0) evicted.lines = victims;
    return result;
}

// The vector versions first ask whether anything changes, as it does not in a sweep over pages that
// are alone in their slots: every line is in the most recent way, and dirty if it is written. So
// what is there equals `entry`, whatever a read finds in the dirty flag.

__attribute__((target("avx512f,avx512bw"), noinline)) RowResult change_avx512(
    std::uint8_t* row, unsigned ways, std::uint64_t lines, std::uint8_t entry, Evicted& evicted) {
    const __m512i tag = _mm512_set1_epi8(static_cast<char>(entry & row_tag));
    const __m512i tag_bits = _mm512_set1_epi8(row_tag);
    const __m512i dirty = _mm512_set1_epi8(static_cast<char>(row_dirty));
    // `active` are the lines still looking for their tag: they shift one way down at each step.
    __m512i carried = _mm512_set1_epi8(static_cast<char>(entry));
    __mmask64 active = lines;
    __mmask64 stays_dirty = 0;
    for (unsigned way = 0; way < ways && active != 0; ++way) {
        std::uint8_t* here = row + way * 64;
        const __m512i old = _mm512_load_si512(here);
        const __mmask64 hit =
            _mm512_mask_cmpeq_epi8_mask(active, _mm512_and_si512(old, tag_bits), tag);
        _mm512_store_si512(here, _mm512_mask_blend_epi8(active, old, carried));
        stays_dirty |= hit & _mm512_movepi8_mask(old);
        active &= ~hit;
        carried = old;
    }
    if (stays_dirty != 0) {
        const __m512i first = _mm512_load_si512(row);
        _mm512_store_si512(
            row, _mm512_mask_blend_epi8(stays_dirty, first, _mm512_or_si512(first, dirty)));
    }
    if (active == 0) return {0, 0};
    _mm512_store_si512(evicted.entry, carried);
    evicted.lines = _mm512_mask_test_epi8_mask(active, carried, carried);
    return {active, active & _mm512_movepi8_mask(carried)};
}

__attribute__((target("avx512f,avx512bw"))) RowResult access_avx512(
    std::uint8_t* row, unsigned ways, std::uint64_t lines, std::uint8_t entry, Evicted& evicted) {
    const __m512i differs =
        _mm512_xor_si512(_mm512_load_si512(row), _mm512_set1_epi8(static_cast<char>(entry)));
    const __m512i that_count = _mm512_set1_epi8(static_cast<char>(entry | row_tag));
    if (_mm512_mask_test_epi8_mask(lines, differs, that_count) == 0) return {0, 0};
    return change_avx512(row, ways, lines, entry, evicted);
}

// 32 bits to 32 bytes of 0 or 0xff.
__attribute__((target("avx2"))) inline __m256i expand(std::uint32_t bits) {
    const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2,
                                             2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte_of);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
}

__attribute__((target("avx2"))) inline std::uint32_t top_bits(__m256i bytes) {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes));
}

struct HalfResult {
    std::uint32_t missed, dirty, victims;
};

__attribute__((target("avx2"))) HalfResult access_half(std::uint8_t* row, unsigned ways,
                                                       std::uint32_t lines, std::uint8_t entry,
                                                       std::uint8_t* evicted) {
    auto* first = reinterpret_cast<__m256i*>(row);
    __m256i active = expand(lines);
    __m256i carried = _mm256_set1_epi8(static_cast<char>(entry));
    const __m256i differs = _mm256_xor_si256(_mm256_load_si256(first), carried);
    const __m256i that_count = _mm256_set1_epi8(static_cast<char>(entry | row_tag));
    if (_mm256_testz_si256(_mm256_and_si256(active, that_count), differs) != 0) return {0, 0, 0};
    const __m256i tag = _mm256_set1_epi8(static_cast<char>(entry & row_tag));
    const __m256i tag_bits = _mm256_set1_epi8(row_tag);
    const __m256i dirty = _mm256_set1_epi8(static_cast<char>(row_dirty));
    __m256i stays_dirty = _mm256_setzero_si256();
    for (unsigned way = 0; way < ways; ++way) {
        auto* here = reinterpret_cast<__m256i*>(row + way * 64);
        const __m256i old = _mm256_load_si256(here);
        const __m256i hit =
            _mm256_and_si256(active, _mm256_cmpeq_epi8(_mm256_and_si256(old, tag_bits), tag));
        _mm256_store_si256(here, _mm256_blendv_epi8(old, carried, active));
        stays_dirty =
            _mm256_or_si256(stays_dirty, _mm256_and_si256(hit, _mm256_and_si256(old, dirty)));
        active = _mm256_andnot_si256(hit, active);
        carried = old;
    }
    _mm256_store_si256(first, _mm256_or_si256(_mm256_load_si256(first), stays_dirty));
    const std::uint32_t missed = top_bits(active);
    if (missed == 0) return {0, 0, 0};
    const __m256i empty = _mm256_cmpeq_epi8(carried, _mm256_setzero_si256());
    _mm256_store_si256(reinterpret_cast<__m256i*>(evicted), carried);
    return {missed, missed & top_bits(carried), missed & ~top_bits(empty)};
}

__attribute__((target("avx2"))) RowResult access_avx2(std::uint8_t* row, unsigned ways,
                                                      std::uint64_t lines, std::uint8_t entry,
                                                      Evicted& evicted) {
    const auto low_lines = static_cast<std::uint32_t>(lines);
    const auto high_lines = static_cast<std::uint32_t>(lines >> 32);
    const HalfResult low = access_half(row, ways, low_lines, entry, evicted.entry);
    const HalfResult high = access_half(row + 32, ways, high_lines, entry, evicted.entry + 32);
    const std::uint64_t missed = std::uint64_t{high.missed} << 32 | low.missed;
    if (missed != 0) evicted.lines = std::uint64_t{high.victims} << 32 | low.victims;
    return {missed, std::uint64_t{high.dirty} << 32 | low.dirty};
}

}  // namespace

RowKernel row_kernel(std::string_view version) {
    if (version == "avx512") return __builtin_cpu_supports("avx512bw") ? access_avx512 : nullptr;
    if (version == "avx2") return __builtin_cpu_supports("avx2") ? access_avx2 : nullptr;
    return version == "scalar" ? access_scalar : nullptr;
}

RowKernel row_kernel() {
    for (const std::string_view version : {"avx512", "avx2"}) {
        if (const RowKernel kernel = row_kernel(version)) return kernel;
    }
    return access_scalar;
}

}  // namespace pagelens
