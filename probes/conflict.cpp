#include "probes/conflict.hpp"

#include <emmintrin.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

struct alignas(64) Line {
    std::uint64_t words[8];
};

__m128i part(const Line& line, std::size_t i) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(&line) + i);
}
void set_part(Line& line, std::size_t i, __m128i value) {
    _mm_store_si128(reinterpret_cast<__m128i*>(&line) + i, value);
}

// The sum of all words of both, modulo 2^64.
std::uint64_t read(const Line* first, const Line* second, std::size_t lines) {
    __m128i one = _mm_setzero_si128(), other = one;
    for (std::size_t line = 0; line < lines; ++line) {
        for (std::size_t i = 0; i < 4; ++i) one = _mm_add_epi64(one, part(first[line], i));
        for (std::size_t i = 0; i < 4; ++i) other = _mm_add_epi64(other, part(second[line], i));
    }
    const __m128i sum = _mm_add_epi64(one, other);
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum)) +
           static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)));
}

void write(Line* first, Line* second, std::size_t lines, std::uint64_t value) {
    const __m128i all = _mm_set1_epi64x(static_cast<long long>(value));
    for (std::size_t line = 0; line < lines; ++line) {
        for (std::size_t i = 0; i < 4; ++i) set_part(first[line], i, all);
        for (std::size_t i = 0; i < 4; ++i) set_part(second[line], i, all);
    }
}

void copy(const Line* first, Line* second, std::size_t lines) {
    for (std::size_t line = 0; line < lines; ++line) {
        for (std::size_t i = 0; i < 4; ++i) set_part(second[line], i, part(first[line], i));
    }
}

// Word i of the first stream and of the second at the start.
std::uint64_t first_word(std::size_t i) { return i * 0x9e3779b97f4a7c15u; }
std::uint64_t second_word(std::size_t i) { return ~first_word(i); }
constexpr std::uint64_t written = 42;

}  // namespace

ConflictResult conflict(const Memory& memory, std::size_t first_offset, std::size_t second_offset,
                        std::size_t bytes, ConflictKind kind, std::size_t repeats, int cpu) {
    if (bytes == 0 || bytes % sizeof(Line) != 0) {
        throw std::invalid_argument("bytes: " + std::to_string(bytes) +
                                    "; a multiple of 64, at least 64");
    }
    const Memory::Use use(memory);
    const std::size_t lines = bytes / sizeof(Line);
    Line* const first = use.at<Line>(first_offset, lines, "first_offset");
    Line* const second = use.at<Line>(second_offset, lines, "second_offset");
    if (first < second + lines && second < first + lines) {
        throw std::invalid_argument("second_offset: " + std::to_string(second_offset) +
                                    "; at least bytes from first_offset");
    }

    const std::span<const int> cpus(&cpu, 1);
    const auto words = [lines](auto each) {
        for (std::size_t i = 0; i < lines * 8; ++i) each(i / 8, i % 8, i);
    };
    std::uint64_t right = 0;
    run_pinned(cpus, [&](const Member&) {
        words([&](std::size_t line, std::size_t word, std::size_t i) {
            right += first[line].words[word] = first_word(i);
            right += second[line].words[word] = second_word(i);
        });
    });
    bool ok = true;
    const Times times = timed(cpus, repeats, [&](const Member&) {
        switch (kind) {
            case ConflictKind::read:
                ok = read(first, second, lines) == right && ok;
                break;
            case ConflictKind::write:
                write(first, second, lines, written);
                break;
            case ConflictKind::copy:
                copy(first, second, lines);
                break;
        }
    });
    words([&](std::size_t line, std::size_t word, std::size_t i) {
        const std::uint64_t one = first[line].words[word], other = second[line].words[word];
        switch (kind) {
            case ConflictKind::read:
                break;
            case ConflictKind::write:
                ok = ok && one == written && other == written;
                break;
            case ConflictKind::copy:
                ok = ok && one == first_word(i) && other == one;
                break;
        }
    });
    return {times.slowest(), ok};
}

}  // namespace pagelens::probes
