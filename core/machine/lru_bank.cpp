#include "core/machine/lru_bank.hpp"

#include <immintrin.h>

#include <algorithm>
#include <initializer_list>

namespace pagelens {
namespace {

// What every version does for each line: find the entry's place in its row, or the last one; shift
// what is before it by one and put the entry first. `step(row, entry)` does that; it returns what
// was at the place, and whether it was a hit. The rest is the same for all versions.
struct Step {
    std::uint32_t old;
    bool hit;
};

template <class DoStep>
[[gnu::always_inline]] inline std::size_t for_each_line(const LruBatch& b, LruEvent* const events,
                                                        DoStep&& step) {
    const std::size_t page_set_rows = b.caches * lru_row * 64, line_rows = b.caches * lru_row;
    const std::uint32_t page_set_mask = (1u << b.page_set_bits) - 1;
    const std::uint32_t written = b.write ? lru_dirty : 0;
    LruEvent* out = events;
    for (std::size_t i = 0; i < b.pages.size(); ++i) {
        const RankPage page = b.pages[i];
        std::uint32_t* const rows = b.rows + (page.frame & page_set_mask) * page_set_rows +
                                    std::size_t{b.cache_of[page.rank]} * lru_row;
        const std::uint32_t entry =
            ((page.frame >> b.page_set_bits) + 1) | written | (page.watched != 0 ? lru_watched : 0);
        for (std::uint64_t lines = b.lines; lines != 0; lines &= lines - 1) {
            const auto line = static_cast<unsigned>(std::countr_zero(lines));
            const Step done = step(rows + line * line_rows, entry);
            const bool left = !done.hit && done.old >= (lru_dirty | lru_watched);
            // The event is always written but seldom kept, so that there is no branch to guess
            // wrong.
            *out = {static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(line),
                    static_cast<std::uint16_t>(done.hit ? 0 : 1), left ? done.old : 0};
            out += page.watched | static_cast<unsigned>(left);
        }
    }
    return static_cast<std::size_t>(out - events);
}

std::size_t access_scalar(const LruBatch& batch, LruEvent* events) {
    return for_each_line(batch, events, [&](std::uint32_t* row, std::uint32_t entry) {
        unsigned place = 0;
        while (place < batch.ways && ((row[place] ^ entry) & lru_tag) != 0) ++place;
        const bool hit = place < batch.ways;
        if (!hit) --place;
        const std::uint32_t old = row[place];
        for (unsigned way = place; way > 0; --way) row[way] = row[way - 1];
        row[0] = entry | (hit ? old & lru_dirty : 0);
        return Step{old, hit};
    });
}

__attribute__((target("avx512f"))) std::size_t access_avx512(const LruBatch& batch,
                                                             LruEvent* events) {
    const __m512i tag_bits = _mm512_set1_epi32(static_cast<int>(lru_tag));
    const unsigned last = 1u << (batch.ways - 1);  // where a miss puts its entry
    return for_each_line(
        batch, events,
        [&](std::uint32_t* row, std::uint32_t entry) __attribute__((target("avx512f"))) {
            const __m512i tag = _mm512_set1_epi32(static_cast<int>(entry & lru_tag));
            const __m512i old = _mm512_loadu_si512(row);
            const unsigned hits = _mm512_cmpeq_epi32_mask(_mm512_and_si512(old, tag_bits), tag);
            const auto place = static_cast<unsigned>(std::countr_zero(hits | last));
            const std::uint32_t pushed = row[place];
            const auto moved = static_cast<__mmask16>((2u << place) - 1);
            const std::uint32_t first = entry | (hits != 0 ? pushed & lru_dirty : 0);
            const __m512i now = _mm512_mask_alignr_epi32(old, moved, old, old, 15);
            _mm512_storeu_si512(row, _mm512_mask_set1_epi32(now, 1, static_cast<int>(first)));
            return Step{pushed, hits != 0};
        });
}

// The row is shifted by one by reading it from one word before it.
__attribute__((target("avx2"))) std::size_t access_avx2(const LruBatch& batch, LruEvent* events) {
    const __m256i tag_bits = _mm256_set1_epi32(static_cast<int>(lru_tag));
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const unsigned last = 1u << (batch.ways - 1);
    return for_each_line(
        batch, events,
        [&](std::uint32_t* row, std::uint32_t entry) __attribute__((target("avx2"))) {
            const __m256i tag = _mm256_set1_epi32(static_cast<int>(entry & lru_tag));
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
            return Step{pushed, hits != 0};
        });
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

void LruBank::copy_line(std::size_t page_set, unsigned from, unsigned to) {
    const auto rows = [&](unsigned line) {
        return first_row() + (page_set * 64 + line) * caches_ * lru_row;
    };
    std::copy_n(rows(from), caches_ * lru_row, rows(to));
}

bool LruBank::remove(std::uint32_t cache, std::uint32_t frame, unsigned line) {
    const std::size_t page_set = frame & ((1u << page_set_bits_) - 1);
    std::uint32_t* const row = first_row() + ((page_set * 64 + line) * caches_ + cache) * lru_row;
    std::uint32_t* const end = row + ways_;
    const std::uint32_t tag = (frame >> page_set_bits_) + 1;
    std::uint32_t* const found =
        std::find_if(row, end, [&](std::uint32_t entry) { return (entry & lru_tag) == tag; });
    if (found == end) return false;
    const bool dirty = (*found & lru_dirty) != 0;
    std::copy(found + 1, end, found);
    end[-1] = 0;
    return dirty;
}

}  // namespace pagelens
