#include "probes/isa.hpp"

#include <algorithm>
#include <stdexcept>

namespace pagelens::probes {

std::vector<Isa> isas() {
    std::vector<Isa> found{Isa::sse2};  // part of x86-64
    if (__builtin_cpu_supports("avx2")) found.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f")) found.push_back(Isa::avx512);
    return found;
}

Isa best_isa() {
    const Isa widest = isas().back();
    return widest == Isa::avx512 && __builtin_cpu_is("amdfam19h") ? Isa::avx2 : widest;
}

void require(Isa isa) {
    const std::vector<Isa> known = isas();
    if (std::find(known.begin(), known.end(), isa) == known.end()) {
        throw std::invalid_argument("isa: this processor lacks it; isas() names those it has");
    }
}

}  // namespace pagelens::probes
