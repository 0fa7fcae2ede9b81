// Vector instructions that the loops exist for.
#pragma once

#include <vector>

namespace pagelens::probes {

enum class Isa { sse2, avx2, avx512 };

// Those that this processor and its operating system run, the widest last.
std::vector<Isa> isas();

// std::invalid_argument where this processor does not run them.
void require(Isa isa);

}  // namespace pagelens::probes
