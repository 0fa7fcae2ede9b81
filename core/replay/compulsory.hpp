// What a program would ask of memory if its caches were infinite. No placement and no cache can
// save it this (Hill, Smith 1989: compulsory misses).
#pragma once

#include <cstdint>
#include <vector>

#include "core/accesses/program.hpp"

namespace pagelens {

struct Compulsory {
    // Reads of lines that were neither fetched nor written since their page was handed out, or
    // since a non-temporal store.
    std::uint64_t reads = 0;
    std::uint64_t writes = 0;  // page clearing and non-temporal stores
    friend bool operator==(const Compulsory&, const Compulsory&) = default;
};

// [phase], lines of all `ranks` copies; those of files, which the copies share, once.
std::vector<Compulsory> compulsory_by_phase(const Program& program, std::uint32_t ranks);

}  // namespace pagelens
