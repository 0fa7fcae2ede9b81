// Maps a physical address to what it selects: the set of a cache, an L3 slice, a memory channel, a
// bank, or a row. Each bit is the parity of some address bits. If the number of values is no power
// of two, thresholds or a remainder decide.
//
// The form is that of the slice hashes of Intel's processors (McCalpin, Mapping addresses to L3/CHA
// slices in Intel processors, TACC TR-2021-03, doi:10.26153/tsw/14539). A plain index is one level
// without thresholds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pagelens {

// Masks of address bits; a field of several has its least significant bit first.
using Masks = std::vector<std::uint64_t>;

struct HashForm {
    // A number h of the bits `masks` that counts as 2^keep_bits from `threshold` on, and as its
    // lowest `keep_bits` bits before: of 64 equally likely numbers, 2^keep_bits + 1 values.
    struct High {
        Masks masks;
        std::uint32_t threshold = 0;
        unsigned keep_bits = 0;
    };
    // The remainder of address / 2^shift by `divisor`, by which, for example, three memory channels
    // take turns.
    struct Modulo {
        unsigned shift = 0;
        std::uint32_t divisor = 0;
    };
    // A value is `low` + 2^(bits of low) x `high` or `modulo`; a level has one of these two at
    // most.
    struct Level {
        Masks low;
        std::optional<High> high;
        std::optional<Modulo> modulo = {};
    };

    std::vector<Level> levels;  // the first whose value is below group_values counts
    std::uint32_t group_values = 1;
    Masks group;  // which of 2^bits groups of group_values values it is
};

class AddressHash {
  public:
    // Throws std::invalid_argument: no level, more than 32 bits, a last level that may reach
    // group_values, or a value of no use (a threshold that h does not reach, a divisor below 3).
    explicit AddressHash(const HashForm& form);

    // Returns a number below values().
    [[nodiscard]] std::uint32_t operator()(std::uint64_t address) const {
        std::uint32_t bits = 0;
        for (unsigned byte = 0; byte < common_bytes; ++byte) {
            bits ^= parities_[byte][address >> (8 * byte) & 255];
        }
        if (address_bits_ >> (8 * common_bytes) != 0) {
            for (unsigned byte = common_bytes; byte < address_bytes; ++byte) {
                bits ^= parities_[byte][address >> (8 * byte) & 255];
            }
        }
        if (!known_.empty()) return known_[bits];
        return plain_ ? bits : value_of(bits, address);
    }
    // Sets values[i] to the hash of addresses[i]; there are as many of both.
    void apply(std::span<const std::uint64_t> addresses, std::span<std::uint32_t> values) const;

    [[nodiscard]] std::uint32_t values() const { return values_; }
    // All address bits that the hash depends on.
    [[nodiscard]] std::uint64_t address_bits() const { return address_bits_; }

  private:
    static constexpr unsigned address_bytes = 7;  // physical addresses have 52 bits at most
    static constexpr unsigned common_bytes = 5;   // what most hashes look at
    static constexpr unsigned known_bits = 14;    // at most so many: all their values are kept
    static constexpr std::uint64_t every_bit = (std::uint64_t{1} << (8 * address_bytes)) - 1;
    static constexpr unsigned most_bits = 32;

    // Some neighbouring bits of the 32.
    struct Field {
        unsigned shift = 0, width = 0;
        [[nodiscard]] std::uint32_t of(std::uint32_t bits) const {
            return bits >> shift & ((std::uint32_t{1} << width) - 1);
        }
    };
    struct Level {
        Field low, high;
        std::uint32_t threshold = 0;
        unsigned keep_bits = 0, shift = 0;
        std::uint32_t divisor = 0;  // 0: no remainder is taken
        [[nodiscard]] std::uint32_t of(std::uint32_t bits, std::uint64_t address) const {
            return low.of(bits) + (upper(bits, address) << low.width);
        }
        [[nodiscard]] std::uint32_t upper(std::uint32_t bits, std::uint64_t address) const {
            if (divisor != 0) return static_cast<std::uint32_t>((address >> shift) % divisor);
            const std::uint32_t h = high.of(bits), kept = std::uint32_t{1} << keep_bits;
            return h >= threshold ? kept : h & (kept - 1);
        }
    };

    Field add(const Masks& masks);
    [[nodiscard]] std::uint32_t value_of(std::uint32_t bits, std::uint64_t address) const {
        for (const Level& level : levels_) {
            const std::uint32_t value = level.of(bits, address);
            if (value < group_values_) return value + group_values_ * group_.of(bits);
        }
        __builtin_unreachable();  // the last level's value is
    }

    // parities_[i][b]: what byte i of the address contributes to all bits if it is b.
    std::array<std::array<std::uint32_t, 256>, address_bytes> parities_{};
    std::vector<Level> levels_;
    std::vector<std::uint16_t> known_;  // the values of all numbers of bits; empty if too many
    Field group_;
    std::uint32_t group_values_, values_;
    std::uint64_t address_bits_ = 0;
    unsigned bits_ = 0;
    bool plain_ = false;  // the bits are the value
};

}  // namespace pagelens
