// Vector instructions that the loops exist for.
#pragma once

#include <vector>

namespace pagelens::probes {

enum class Isa { sse2, avx2, avx512 };

// Returns those that this processor and its operating system run, the widest last.
std::vector<Isa> isas();

// The widest of them that the processor's load and store units take whole. Zen 3 and 4 (family 19h)
// halve what AVX-512 asks for (AMD, Software Optimization Guide for the Zen 4 Microarchitecture,
// publication 57647), and loops of whole lines were slower there than AVX2's.
Isa best_isa();

// std::invalid_argument where this processor does not run them.
void require(Isa isa);

}  // namespace pagelens::probes
