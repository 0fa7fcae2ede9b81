#include "core/machine/cpuid.hpp"

#include <cpuid.h>

namespace pagelens {
namespace {

// The first leaves of the hypervisor's range and of the extended one. Each of them says which leaf
// is its range's last.
constexpr std::uint32_t kHypervisor = 0x4000'0000, kExtended = 0x8000'0000, kRange = 0x1'0000;

}  // namespace

std::array<std::uint32_t, 4> cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
    std::array<std::uint32_t, 4> out{};
    auto& [a, b, c, d] = out;
    const std::uint32_t first = leaf >= kExtended     ? kExtended
                                : leaf >= kHypervisor ? kHypervisor
                                                      : 0;
    __cpuid_count(first, 0, a, b, c, d);
    if (a < first || a - first >= kRange || leaf > a) {
        return {};
    }
    __cpuid_count(leaf, subleaf, a, b, c, d);
    return out;
}

}  // namespace pagelens
