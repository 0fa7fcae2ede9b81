// Reads what this processor says of itself, by the CPUID instruction, which needs no privilege.
#pragma once

#include <array>
#include <cstdint>

namespace pagelens {

// Returns EAX, EBX, ECX and EDX of a leaf and subleaf, or zeros if the processor has no such leaf.
// In a guest the hypervisor answers.
std::array<std::uint32_t, 4> cpuid(std::uint32_t leaf, std::uint32_t subleaf);

}  // namespace pagelens
