#include "core/machine/set_counts.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/address/units.hpp"

namespace pagelens {

SetCounts::SetCounts(AddressHash slices, std::uint32_t sets, std::uint32_t ways)
    : slices_(std::move(slices)), sets_(sets), ways_(ways) {
    constexpr std::uint64_t most_sets = 1 << 26;  // of all slices: 256 MiB of counts
    if (!std::has_single_bit(sets) || sets > most_sets / slices_.values()) {
        throw std::invalid_argument(
            "sets must be a power of two, with all slices at most 2^26, not " +
            std::to_string(sets) + " of each");
    }
    if (ways == 0) throw std::invalid_argument("ways must be at least 1");
    counts_.resize(std::size_t{slices_.values()} * sets);
}

inline std::size_t SetCounts::index(std::uint64_t address) const {
    return std::size_t{slices_(address)} * sets_ + (address >> line_bits & (sets_ - 1));
}

std::uint64_t SetCounts::put(std::uint64_t address, std::uint32_t lines) {
    std::uint64_t beyond = 0;
    for (std::uint32_t i = 0; i < lines; ++i, address += line_bytes) {
        beyond += ++counts_[index(address)] > ways_;
    }
    return beyond;
}

std::uint64_t SetCounts::take(std::uint64_t address, std::uint32_t lines) {
    std::uint64_t beyond = 0;
    for (std::uint32_t i = 0; i < lines; ++i, address += line_bytes) {
        std::uint32_t& count = counts_[index(address)];
        assert(count > 0);
        beyond += count-- > ways_;
    }
    return beyond;
}

void SetCounts::add(Extents extents) {
    for (std::size_t i = 0; i < extents.addresses.size(); ++i) {
        excess_ += put(extents.addresses[i], extents.lines[i]);
    }
}

void SetCounts::remove(Extents extents) {
    for (std::size_t i = 0; i < extents.addresses.size(); ++i) {
        excess_ -= take(extents.addresses[i], extents.lines[i]);
    }
}

void SetCounts::clear() {
    std::fill(counts_.begin(), counts_.end(), 0u);
    excess_ = 0;
}

std::uint64_t SetCounts::excess_with(const SetCounts& other) const {
    if (other.counts_.size() != counts_.size()) {
        throw std::invalid_argument("counts of " + std::to_string(counts_.size()) + " and " +
                                    std::to_string(other.counts_.size()) + " sets");
    }
    std::uint64_t beyond = 0;
    for (std::size_t set = 0; set < counts_.size(); ++set) {
        const std::uint32_t count = counts_[set] + other.counts_[set];
        beyond += std::max(count, ways_) - ways_;
    }
    return beyond;
}

std::vector<std::uint64_t> SetCounts::histogram() const {
    std::vector<std::uint64_t> sets(*std::max_element(counts_.begin(), counts_.end()) + 1);
    for (const std::uint32_t count : counts_) ++sets[count];
    return sets;
}

void SetCounts::crowded(Extents extents, std::span<std::uint32_t> crowded) const {
    for (std::size_t i = 0; i < extents.addresses.size(); ++i) {
        std::uint64_t address = extents.addresses[i];
        crowded[i] = 0;
        for (std::uint32_t line = 0; line < extents.lines[i]; ++line, address += line_bytes) {
            crowded[i] += counts_[index(address)] > ways_;
        }
    }
}

std::vector<std::uint64_t> SetCounts::crowded_lines(Extents extents) const {
    std::vector<std::uint64_t> found;
    for (std::size_t i = 0; i < extents.addresses.size(); ++i) {
        std::uint64_t address = extents.addresses[i] & ~(line_bytes - 1);
        for (std::uint32_t line = 0; line < extents.lines[i]; ++line, address += line_bytes) {
            if (counts_[index(address)] > ways_) found.push_back(address);
        }
    }
    return found;
}

}  // namespace pagelens
