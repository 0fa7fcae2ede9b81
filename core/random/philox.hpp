// Random draws by counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC'11, doi:10.1145/2063384.2063405).
//
// A draw depends on (seed, node, run, stream, index) and on nothing else: not on the policy, nor on
// the thread or the order in which nodes are computed, so policies are compared on the same node.
#pragma once

#include <emmintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace pagelens {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(a)};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

// Returns this counter's block and the three behind it, by their first word. Four blocks take
// little longer than one, because a block is a chain of products that wait for each other.
inline std::array<PhiloxBlock, 4> four_philox4x32(PhiloxBlock counter,
                                                  std::array<std::uint32_t, 2> key) {
    // Each word in the lower half of a lane, two blocks a vector; nobody reads the upper halves.
    __m128i words[2][4];
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
        const std::uint32_t first = counter[0] + 2 * pair;
        words[pair][0] = _mm_set_epi64x(first + 1, first);
        for (unsigned word = 1; word < 4; ++word) {
            words[pair][word] = _mm_set1_epi64x(counter[word]);
        }
    }
    const auto all = [](std::uint32_t word) { return _mm_set1_epi32(static_cast<int>(word)); };
    __m128i keys[] = {all(key[0]), all(key[1])};
    for (int round = 0; round < 10; ++round) {
        for (auto& [w0, w1, w2, w3] : words) {
            const __m128i a = _mm_mul_epu32(all(0xD2511F53u), w0);
            const __m128i b = _mm_mul_epu32(all(0xCD9E8D57u), w2);
            w0 = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(b, 32), w1), keys[0]);
            w1 = b;
            w2 = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(a, 32), w3), keys[1]);
            w3 = a;
        }
        keys[0] = _mm_add_epi32(keys[0], all(0x9E3779B9u));
        keys[1] = _mm_add_epi32(keys[1], all(0xBB67AE85u));
    }
    std::array<PhiloxBlock, 4> blocks;
    PhiloxBlock* block = blocks.data();
    const auto store = [&](__m128i words01, __m128i words23) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(block++->data()),
                         _mm_unpacklo_epi64(words01, words23));
    };
    for (const auto& [w0, w1, w2, w3] : words) {
        store(_mm_unpacklo_epi32(w0, w1), _mm_unpacklo_epi32(w2, w3));
        store(_mm_unpackhi_epi32(w0, w1), _mm_unpackhi_epi32(w2, w3));
    }
    return blocks;
}

// The purpose of a draw. Each purpose has a stream of its own, so adding draws to one leaves the
// others as they were.
enum class Stream : std::uint32_t {
    history = 0,
    random_frames = 2,
    sampling = 3,
    ideal_twin = 4,
    frequency = 5,
    declared_lines = 6,
    ballast = 7,
    chase = 8,
    threads = 9
};

class Random {
  public:
    Random(std::uint64_t seed, std::uint32_t node, std::uint32_t run, Stream stream)
        : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
          node_(node),
          run_(run),
          stream_(static_cast<std::uint32_t>(stream)) {}

    std::uint32_t bits32() {
        if (used_ == 16) [[unlikely]]
            refill();
        return words_[used_++];
    }
    std::uint64_t bits64() {
        const std::uint64_t high = bits32();
        return high << 32 | bits32();
    }
    // Uniform in [0, n), n < 2^32; the bias is below n / 2^64.
    std::uint32_t below(std::uint32_t n) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint32_t>((Wide{bits64()} * n) >> 64);
    }
    // The same from half the bits, for small n: the bias is below n / 2^32.
    std::uint32_t small(std::uint32_t n) {
        return static_cast<std::uint32_t>(std::uint64_t{bits32()} * n >> 32);
    }
    // Uniform in [0, 1), in steps of 2^-32.
    double small_uniform() { return bits32() * 0x1p-32; }
    // Uniform in [0, 1).
    double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }
    // Uniform in the logarithm, in [low, high); 0 < low <= high.
    double log_uniform(double low, double high) { return low * std::pow(high / low, uniform()); }

  private:
    [[gnu::noinline]] void refill() {
        words_ = std::bit_cast<Words>(four_philox4x32({index_, stream_, run_, node_}, key_));
        index_ += 4;
        used_ = 0;
    }

    std::array<std::uint32_t, 2> key_;
    std::uint32_t node_, run_, stream_;
    std::uint32_t index_ = 0;
    using Words = std::array<std::uint32_t, 16>;  // four blocks
    Words words_{};
    unsigned used_ = 16;
};

}  // namespace pagelens
