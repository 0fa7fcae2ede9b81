// What a program would ask of memory if its caches were infinite. No placement and no cache can
// save it this (Hill, Smith 1989: compulsory misses).
#pragma once

#include <cstdint>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/replay/excerpt.hpp"

namespace pagelens {

struct Compulsory {
    // Reads of lines that were neither fetched nor written since their page was handed out, or
    // since a non-temporal store.
    std::uint64_t reads = 0;
    std::uint64_t writes = 0;                 // page clearing and non-temporal stores
    std::vector<std::uint64_t> object_reads;  // [object]
    // Of the reads, those that a replay with excerpts counts: [stretch] and [object].
    std::vector<std::uint64_t> stretch_reads, object_reads_in_stretches;
};

// [phase], lines of all `ranks` copies; those of files, which the copies share, once. `excerpts`
// has one for each phase; without, all of a phase is one stretch. Throws as check() does.
std::vector<Compulsory> compulsory_by_phase(const Program& program, std::uint32_t ranks,
                                            const std::vector<Excerpt>& excerpts = {});

}  // namespace pagelens
