// The sets of a set-associative cache as rows. A row knows which tags its set holds, which of them
// are dirty, and which one goes next. Its user picks the row and knows which line a tag stands for.
//
// A line keeps its way while it is in the cache, so that others may keep words beside it (the
// holders of a snoop filter's entries). A row consists of
//   - a word for each way: the tag + 1, or 0 if the way is empty;
//   - a byte for each way: bit 7 is the dirty flag, the rest its age under LRU, 0 for the latest;
//   - the 64 bits of any other replacement policy (core/machine/replacement/);
//   - the words beside the ways.
// The ages of a row are a permutation, in which empty ways are the oldest. Rows of up to 12 ways
// are one cache line of the host. Tags and ages are compared and moved 16 at a time.
//
// tests/cpp/reference_caches.hpp has the slow and obvious version that this one must equal.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/machine/huge_array.hpp"
#include "core/machine/replacement/policies.hpp"

namespace pagelens {

// Nearly all caches are `plain`: LRU with at most 16 ways. Their code has no branch for other
// kinds.
template <bool plain>
class CacheRows {
  public:
    static constexpr std::uint32_t most_ways = plain ? 16 : 64;
    static constexpr std::uint32_t most_tag = 0xfffffffeu;
    static constexpr std::uint32_t none = ~std::uint32_t{0};  // no way

    // The fields are words, because the compiler would pack and unpack bytes.
    struct Entry {
        std::uint64_t tag = 0, valid = 0, dirty = 0;
    };
    // The place of a row.
    struct Row {
        std::uint8_t* at = nullptr;
    };

    // The rows of several caches, one cache after the other. There are as many caches as `seeds`,
    // which the replacement policy gets. Rows have 1 to most_ways ways; beside each way lie
    // `beside` bytes, which are 0 at first.
    CacheRows(std::size_t rows, std::uint32_t ways, Replacement replacement,
              std::span<const std::uint64_t> seeds, std::uint32_t beside = 0)
        : ways_(ways),
          blocks_((ways + block - 1) / block),
          ages_at_((ways + 3) / 4 * 16),
          state_at_(ages_at_ + blocks_ * block),
          beside_at_(state_at_ + (replacement == replacement_by<Lru> ? 0 : sizeof(std::uint64_t))),
          stride_((beside_at_ + ways * beside + unit - 1) / unit * unit),
          last_block_(ways % block == 0 ? 0xffffu : (1u << ways % block) - 1),
          lru_(replacement == replacement_by<Lru>),
          policy_(make_policy(replacement, ways)),
          data_((rows * stride_ + 64) / sizeof(HostLine) + 1) {
        assert(rows >= 1 && ways >= 1 && ways <= most_ways);
        assert(!plain || lru_);
        for (std::size_t number = 0; number < rows; ++number) {
            const Row its = row(number);
            std::memset(ages(its), no_age, blocks_ * block);
            for (std::uint32_t way = 0; way < ways; ++way) {
                ages(its)[way] = static_cast<std::uint8_t>(way);
            }
        }
        if (!is_lru())
            with_policy(policy_, [&](const auto& policy) {
                const std::size_t each = rows / seeds.size();
                for (std::size_t number = 0; number < rows; ++number)
                    state(row(number)) = policy.first_state(seeds[number / each], number % each);
            });
    }

    [[nodiscard]] std::uint32_t ways() const { return ways_; }
    [[nodiscard, gnu::always_inline]] Row row(std::size_t number) const {
        return {const_cast<std::uint8_t*>(data_.data()->bytes) + number * stride_};
    }
    // Returns the word beside a way. It stays when another line comes into the way.
    template <class Word>
    [[nodiscard]] Word& beside(Row row, std::uint32_t way) const {
        return reinterpret_cast<Word*>(row.at + beside_at_)[way];
    }

    // Returns the way that holds `tag` (at most most_tag), or `none`.
    [[nodiscard, gnu::always_inline]] std::uint32_t find(Row row, std::uint32_t tag) const {
        return find_entry(row, tag + 1);
    }
    [[nodiscard]] bool dirty(Row row, std::uint32_t way) const {
        return (ages(row)[way] & dirty_flag) != 0;
    }
    // Notes a use of the way. With `dirty`, the way is dirty from now on.
    [[gnu::always_inline]] void use(Row row, std::uint32_t way, bool dirty) {
        const std::uint8_t old = ages(row)[way];
        const auto flag = static_cast<std::uint8_t>((old & dirty_flag) | flag_of(dirty));
        if (is_lru()) return set_latest(row, way, old, flag);
        ages(row)[way] = flag;
        policy_hit(row, way);
    }
    void clean(Row row, std::uint32_t way) {
        ages(row)[way] = static_cast<std::uint8_t>(ages(row)[way] & ~dirty_flag);
    }
    // Puts a tag that is not there into an empty way, or else into the one whose turn it is to go.
    // Sets `way` to that way, and returns what it held before.
    [[gnu::always_inline]] Entry fill(Row row, std::uint32_t tag, bool dirty, std::uint32_t& way) {
        if constexpr (plain) return fill_oldest(row, tag, dirty, way);
        way = is_lru() ? oldest(row) : next_way(row);
        std::uint32_t& entry = tags(row)[way];
        const std::uint8_t old = ages(row)[way];
        const Entry victim{entry - 1, entry != 0, (old & dirty_flag) != 0};
        entry = tag + 1;
        if (is_lru()) {
            set_latest(row, way, old, flag_of(dirty));
        } else {
            ages(row)[way] = flag_of(dirty);
            policy_fill(row, way);
        }
        return victim;
    }
    // Puts a tag that is not there behind all others, as the one used longest ago. Returns its way,
    // or `none` if the row is full. Precondition: nothing else has been done to the row.
    [[nodiscard, gnu::always_inline]] std::uint32_t append(Row row, std::uint32_t tag, bool dirty) {
        const std::uint32_t way = find_entry(row, 0);
        if (way == none) return none;
        tags(row)[way] = tag + 1;
        if (is_lru()) {  // a new row has its ways in the order of their ages
            ages(row)[way] = static_cast<std::uint8_t>(ages(row)[way] | flag_of(dirty));
        } else {
            ages(row)[way] = flag_of(dirty);
            policy_fill(row, way);
        }
        return way;
    }
    // Empties a way; returns true if it was dirty.
    bool remove(Row row, std::uint32_t way) {
        const bool was_dirty = dirty(row, way);
        tags(row)[way] = 0;
        if (is_lru()) {
            make_oldest(row, way);
        } else {
            clean(row, way);
        }
        return was_dirty;
    }

    [[gnu::always_inline]] void prefetch(Row row) const {
        __builtin_prefetch(row.at, 1);
        for (std::size_t byte = sizeof(HostLine); byte < stride_; byte += sizeof(HostLine))
            __builtin_prefetch(row.at + byte, 1);
    }
    // Returns the way that fill() would take now under LRU, or, under other policies, a guess.
    [[nodiscard, gnu::always_inline]] std::uint32_t likely_way(Row row) const {
        return is_lru() ? oldest(row) : 0;
    }
    [[nodiscard]] Entry entry(Row row, std::uint32_t way) const {
        return {tags(row)[way] - 1, tags(row)[way] != 0, dirty(row, way)};
    }

  private:
    static constexpr std::uint32_t block = 16;  // ways
    static constexpr std::uint32_t unit = 32;  // bytes: so many rows do not cross lines of the host
    static constexpr std::uint8_t dirty_flag = 0x80;
    static constexpr std::uint8_t no_age = 0x7f;  // of the bytes beyond the last way

    struct alignas(64) HostLine {
        std::uint8_t bytes[64];
    };

    [[nodiscard]] std::uint32_t blocks() const { return plain ? 1 : blocks_; }
    [[nodiscard]] bool is_lru() const { return plain || lru_; }
    static std::uint8_t flag_of(bool dirty) {
        return static_cast<std::uint8_t>(static_cast<unsigned>(dirty) << 7);
    }
    [[nodiscard]] static std::uint32_t* tags(Row row) {
        return reinterpret_cast<std::uint32_t*>(row.at);
    }
    [[nodiscard]] std::uint8_t* ages(Row row) const { return row.at + ages_at_; }
    // Returns the policy's state. Rows under LRU have none.
    [[nodiscard]] std::uint64_t& state(Row row) const {
        return *reinterpret_cast<std::uint64_t*>(row.at + state_at_);
    }
    // Returns the ways of a block of 16 that there are.
    [[nodiscard]] unsigned ways_of(std::uint32_t number) const {
        return number + 1 == blocks() ? last_block_ : 0xffffu;
    }

    // Rows are whole vectors, and so are the tags of a row.
    template <class Pointer>
    static __m128i load(const Pointer* from) {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(from));
    }
    static __m128i all(std::uint32_t byte) { return _mm_set1_epi8(static_cast<char>(byte)); }

    // Compares whole blocks, and leaves out what lies behind the last way.
    [[nodiscard, gnu::always_inline]] std::uint32_t find_entry(Row row, std::uint32_t entry) const {
        const __m128i wanted = _mm_set1_epi32(static_cast<int>(entry));
        const std::uint32_t* at = tags(row);
        for (std::uint32_t number = 0; number < blocks(); ++number, at += block) {
            const __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(load(at), wanted),
                                                _mm_cmpeq_epi32(load(at + 4), wanted));
            const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(load(at + 8), wanted),
                                                 _mm_cmpeq_epi32(load(at + 12), wanted));
            const unsigned found =
                static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) &
                ways_of(number);
            if (found != 0) return number * block + static_cast<unsigned>(std::countr_zero(found));
        }
        return none;
    }

    // Does as fill() does for a plain row, at once: the oldest line becomes the latest, and the
    // others are a step older.
    [[gnu::always_inline]] Entry fill_oldest(Row row, std::uint32_t tag, bool dirty,
                                             std::uint32_t& way) {
        std::uint8_t* const its = ages(row);
        const __m128i held = load(its), age = _mm_and_si128(held, all(no_age));
        const __m128i last = last_age_;
        const __m128i here = _mm_cmpeq_epi8(age, last);
        const __m128i older = _mm_sub_epi8(held, _mm_cmpgt_epi8(last, age));
        way =
            static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(_mm_movemask_epi8(here))));
        std::uint32_t& entry = tags(row)[way];
        const Entry victim{entry - 1, entry != 0, (its[way] & dirty_flag) != 0};
        entry = tag + 1;
        _mm_store_si128(reinterpret_cast<__m128i*>(its),
                        _mm_blendv_epi8(older, all(flag_of(dirty)), here));
        return victim;
    }
    // The hits of other policies are not inlined, because that would slow down the LRU caches.
    [[gnu::noinline]] void policy_hit(Row row, std::uint32_t way) {
        with_policy(policy_, [&](const auto& policy) { policy.on_hit(state(row), way); });
    }
    [[gnu::noinline]] void policy_fill(Row row, std::uint32_t way) {
        with_policy(policy_, [&](const auto& policy) { policy.on_fill(state(row), way); });
    }
    [[nodiscard, gnu::noinline]] std::uint32_t next_way(Row row) {
        const std::uint32_t empty = find_entry(row, 0);
        if (empty != none) return empty;
        return with_policy(policy_, [&](const auto& policy) { return policy.victim(state(row)); });
    }
    [[nodiscard]] std::uint32_t oldest(Row row) const {
        const __m128i wanted = last_age_;
        for (std::uint32_t number = 0;; ++number) {
            const __m128i held = _mm_and_si128(load(ages(row) + number * block), all(no_age));
            const auto found =
                static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(held, wanted)));
            if (plain || found != 0)
                return number * block + static_cast<unsigned>(std::countr_zero(found));
        }
    }

    // Makes the way the latest. `old` is its byte, and `flag` its dirty flag from now on.
    void set_latest(Row row, std::uint32_t way, std::uint8_t old, std::uint8_t flag) {
        const bool is_latest = old == flag;  // and as dirty as it is to be
        if (is_latest) return;
        if constexpr (plain) {
            make_latest_of_block(row, way, flag);
        } else {
            make_latest(row, way, old & no_age, flag);
        }
    }
    // Does for a plain row what make_latest() does. The age comes from the vector, because a loop
    // over lines of one set waits for each byte that it reads of a vector just written.
    [[gnu::always_inline]] void make_latest_of_block(Row row, std::uint32_t way,
                                                     std::uint8_t flag) {
        const __m128i held = load(ages(row)), age = _mm_and_si128(held, all(no_age));
        const __m128i here = all(way);
        const __m128i younger = _mm_cmpgt_epi8(_mm_shuffle_epi8(age, here), age);
        const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm_store_si128(
            reinterpret_cast<__m128i*>(ages(row)),
            _mm_blendv_epi8(_mm_sub_epi8(held, younger), all(flag), _mm_cmpeq_epi8(numbers, here)));
    }
    void make_latest(Row row, std::uint32_t way, std::uint32_t age, std::uint8_t flag) {
        std::uint8_t* at = ages(row);
        __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (std::uint32_t number = 0; number < blocks(); ++number, at += block) {
            const __m128i held = load(at);
            const __m128i younger = _mm_cmpgt_epi8(all(age), _mm_and_si128(held, all(no_age)));
            const __m128i older = _mm_sub_epi8(held, younger);  // by one where younger
            const __m128i here = _mm_cmpeq_epi8(numbers, all(way));
            _mm_store_si128(reinterpret_cast<__m128i*>(at),
                            _mm_blendv_epi8(older, all(flag), here));
            numbers = _mm_add_epi8(numbers, all(block));
        }
    }
    void make_oldest(Row row, std::uint32_t way) {
        std::uint8_t* at = ages(row);
        const __m128i age = all(at[way] & no_age), end = all(ways_);
        for (std::uint32_t number = 0; number < blocks(); ++number, at += block) {
            const __m128i held = load(at), its = _mm_and_si128(held, all(no_age));
            const __m128i older = _mm_and_si128(_mm_cmpgt_epi8(its, age), _mm_cmpgt_epi8(end, its));
            _mm_store_si128(reinterpret_cast<__m128i*>(at), _mm_add_epi8(held, older));
        }
        ages(row)[way] = static_cast<std::uint8_t>(ways_ - 1);
    }

    std::uint32_t ways_, blocks_;
    std::size_t ages_at_, state_at_, beside_at_, stride_;  // bytes
    std::uint32_t last_block_;                             // mask of the ways of the last block
    __m128i last_age_ = all(ways_ - 1);
    bool lru_;
    ReplacementPolicies policy_;
    HugeVector<HostLine> data_;  // the rows, and room to read beyond the last one
};

}  // namespace pagelens
