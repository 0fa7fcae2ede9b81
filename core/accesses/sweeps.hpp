// Declared programs: loops over arrays, stated instead of traced, so that a problem of any size
// costs nothing to state. The ops are generated as they are replayed; nothing is materialised.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/padding.hpp"
#include "core/accesses/page_runs.hpp"
#include "core/accesses/program.hpp"

namespace pagelens {

enum class StreamKind : std::uint8_t {
    read,          // loads
    write,         // loads and stores, or stores that allocate: fetched, later written back
    stream_store,  // non-temporal stores
};

// One array walked by a sweep. `shift` moves the walk by that many pages (a stencil's neighbouring
// planes); what falls outside the array is skipped.
struct SweepStream {
    unsigned array;
    StreamKind kind;
    std::int64_t shift = 0;
};

// One loop: its streams advance together from the first to the last element, each thread over its
// own contiguous part; a longer array advances proportionally faster.
struct Sweep {
    unsigned phase;
    bool first_touch;              // maps the pages it visits
    double instructions_per_line;  // of the sweep's longest array
    std::vector<SweepStream> streams;
};

struct SweepLoops {
    std::vector<std::uint64_t> array_pages;  // arrays lie one after the other, page-aligned
    std::vector<Sweep> sweeps;               // in the order of execution, phases ascending
    std::vector<unsigned> phase_repeats;     // how often the sweeps of each phase run over
    unsigned threads;
    LineOrder order = LineOrder::by_set;
    Padding padding = {};  // array 0 begins at page 0
};

// Throws std::invalid_argument where an index is out of range or nothing is swept.
// Object k + 1 is array k (object 0 is the kernel's page clearing).
std::unique_ptr<Program> declare_sweeps(SweepLoops loops);

}  // namespace pagelens
