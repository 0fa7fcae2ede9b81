#include "core/address/linear.hpp"

#include <bit>

namespace pagelens {

std::optional<MaskDependence> first_dependence(std::span<const std::uint64_t> masks) {
    // Gauss-Jordan, one mask at a time. Independent masks of 64 bits are at most 64, so that one
    // word says which of them a row is the sum of.
    struct Row {
        std::uint64_t bits;
        std::uint64_t sum_of;
    };
    std::vector<Row> rows;
    for (std::size_t i = 0; i < masks.size(); ++i) {
        std::uint64_t rest = masks[i], sum_of = 0;
        for (const Row& row : rows) {
            if ((rest & std::bit_floor(row.bits)) == 0) continue;
            rest ^= row.bits;
            sum_of ^= row.sum_of;
        }
        if (rest == 0) {
            MaskDependence found{i, {}};
            for (; sum_of != 0; sum_of &= sum_of - 1) {
                found.of.push_back(static_cast<std::size_t>(std::countr_zero(sum_of)));
            }
            return found;
        }
        rows.push_back({rest, sum_of | std::uint64_t{1} << i});
    }
    return std::nullopt;
}

}  // namespace pagelens
