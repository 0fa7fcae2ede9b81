// Reads what this processor says of itself, by the CPUID instruction, which needs no privilege.
#pragma once

#include <array>
#include <cstdint>

namespace pagelens {

// EAX, EBX, ECX, EDX of a leaf and subleaf; zeros where the processor has no such leaf. In a guest
// the hypervisor answers.
std::array<std::uint32_t, 4> cpuid(std::uint32_t leaf, std::uint32_t subleaf);

}  // namespace pagelens
