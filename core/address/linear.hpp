// Linear algebra over GF(2) on masks of address bits: which masks say nothing new.
//
// A list of n independent masks that use n address bits maps those bits one to one; a mask that is
// the exclusive or of others makes two addresses share one value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pagelens {

// A dependence: masks[mask] is the exclusive or of masks[i] for all i in `of`. Those are ascending
// and below `mask`; there are none if the mask itself is 0.
struct MaskDependence {
    std::size_t mask = 0;
    std::vector<std::size_t> of;
    friend bool operator==(const MaskDependence&, const MaskDependence&) = default;
};

// The first mask that depends on those before it; nothing if all are independent.
std::optional<MaskDependence> first_dependence(std::span<const std::uint64_t> masks);

}  // namespace pagelens
