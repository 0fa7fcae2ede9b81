// The codes of the touches before a line event (trace_format.hpp), counted eight at a time.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/accesses/line_predictor.hpp"
#include "core/accesses/trace_format.hpp"

namespace pagelens::detail {

inline constexpr unsigned touch_codes = 2 * SetHistory::depth - 1;  // different ones

// Returns how many touches a code stands for.
constexpr unsigned touches_of(unsigned code) {
    return code < code_oldest ? 1 : code - code_oldest + 1;
}

struct CountedTouches {
    std::size_t codes;  // before the end
    std::uint64_t touches;
};

// Counts the codes of the event at the beginning of `from`, if its end is there and nothing is
// wrong with it. A caller that gets nothing looks at one code after the other. Half of all events
// are touches, and a line has one of them as often as two or none, so looking at single codes costs
// mispredicted branches.
inline std::optional<CountedTouches> count_touches(std::span<const std::uint8_t> from) {
    constexpr std::size_t width = 8;  // codes; an event has no more of them, and then its end
    if (from.size() < width) return std::nullopt;
    const auto all = [](unsigned byte) { return _mm_set1_epi8(static_cast<char>(byte)); };
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from.data()));
    // Codes beyond the eight are zeros, as ends are.
    const auto ends =
        static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(codes, all(touches_end))));
    const auto count = static_cast<unsigned>(std::countr_zero(ends));
    const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i before_end = _mm_cmplt_epi8(numbers, all(count));
    const __m128i kind = _mm_sub_epi8(codes, all(code_touch));
    const __m128i known = _mm_cmpeq_epi8(_mm_min_epu8(kind, all(touch_codes - 1)), kind);
    // Each code is one touch, or as many of the oldest lines as the code says.
    const __m128i each = _mm_max_epu8(_mm_subs_epu8(codes, all(code_oldest - 1)), all(1));
    const __m128i sums = _mm_sad_epu8(_mm_and_si128(each, before_end), _mm_setzero_si128());
    const auto touches = static_cast<std::uint64_t>(_mm_cvtsi128_si64(sums));
    const bool good = count < width && touches <= SetHistory::depth &&
                      _mm_movemask_epi8(_mm_andnot_si128(known, before_end)) == 0;
    if (!good) return std::nullopt;
    return CountedTouches{count, touches};
}

}  // namespace pagelens::detail
