#include "core/address/address_hash.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace pagelens {

AddressHash::AddressHash(const HashForm& form) : group_values_(form.group_values) {
    if (form.levels.empty()) throw std::invalid_argument("a hash needs at least one level");
    for (const HashForm::Level& stated : form.levels) {
        Level level;
        level.low = add(stated.low);
        std::uint64_t highest = 0;  // of the upper part
        if (stated.high && stated.modulo) {
            throw std::invalid_argument("a level has a threshold or a remainder, not both");
        }
        if (stated.modulo) {
            level.shift = stated.modulo->shift;
            level.divisor = stated.modulo->divisor;
            if (level.shift >= 8 * address_bytes || level.divisor < 3) {
                throw std::invalid_argument(
                    "a remainder is of address / 2^shift, shift below 56, "
                    "by 3 or more");
            }
            highest = level.divisor - 1;
            address_bits_ |= every_bit >> level.shift << level.shift;
        } else if (stated.high) {
            level.high = add(stated.high->masks);
            level.threshold = stated.high->threshold;
            level.keep_bits = stated.high->keep_bits;
            highest = std::uint64_t{1} << level.keep_bits;
            if (level.keep_bits > level.high.width || level.threshold >> level.high.width != 0 ||
                level.threshold < highest) {
                throw std::invalid_argument("threshold " + std::to_string(level.threshold) +
                                            " must be from 2^keep_bits to what " +
                                            std::to_string(level.high.width) + " bits reach");
            }
        } else {
            level.threshold = 1;  // of no bits
        }
        levels_.push_back(level);
        const std::uint64_t most = ((highest + 1) << level.low.width) - 1;
        if (most >> 32 != 0) throw std::invalid_argument("a level reaches more than 2^32 values");
        if (&stated == &form.levels.back() && most >= group_values_) {
            throw std::invalid_argument("the last level reaches " + std::to_string(most) +
                                        ", which must be below " + std::to_string(group_values_));
        }
    }
    group_ = add(form.group);
    const std::uint64_t values = std::uint64_t{group_values_} << group_.width;
    if (values >> 32 != 0) throw std::invalid_argument("more than 2^32 values");
    values_ = static_cast<std::uint32_t>(values);
    // One level that reaches no more than its parities do has nothing else.
    plain_ = levels_.size() == 1 && group_values_ == std::uint64_t{1} << levels_[0].low.width;
    const bool takes_remainders = std::any_of(
        levels_.begin(), levels_.end(), [](const Level& level) { return level.divisor != 0; });
    if (takes_remainders || bits_ > known_bits || values_ >> 16 != 0) return;
    for (std::uint32_t bits = 0; bits < 1u << bits_; ++bits) {
        known_.push_back(static_cast<std::uint16_t>(value_of(bits, 0)));
    }
}

AddressHash::Field AddressHash::add(const Masks& masks) {
    const Field field{masks.empty() ? 0 : bits_, static_cast<unsigned>(masks.size())};
    if (masks.size() > most_bits - 1 || bits_ + masks.size() > most_bits) {
        throw std::invalid_argument("a hash has at most 32 bits, and a field of it 31");
    }
    for (const std::uint64_t mask : masks) {
        if (mask == 0 || (mask & ~every_bit) != 0) {
            throw std::invalid_argument("a mask has bits of the address, which has 56");
        }
        for (unsigned byte = 0; byte < address_bytes; ++byte) {
            const std::uint64_t part = mask >> (8 * byte) & 255;
            for (std::uint64_t value = 0; value < 256; ++value) {
                const auto parity = static_cast<std::uint32_t>(std::popcount(value & part) & 1);
                parities_[byte][value] |= parity << bits_;
            }
        }
        address_bits_ |= mask;
        ++bits_;
    }
    return field;
}

void AddressHash::apply(std::span<const std::uint64_t> addresses,
                        std::span<std::uint32_t> values) const {
    for (std::size_t i = 0; i < addresses.size(); ++i) values[i] = (*this)(addresses[i]);
}

}  // namespace pagelens
