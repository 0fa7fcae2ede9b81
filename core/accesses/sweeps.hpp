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

enum class Walk : std::uint8_t {
    parts,   // each thread over its own contiguous part
    shared,  // each thread over all of it
    serial,  // thread 0 over all of it, while the others wait
    random,  // each thread over as many pages' worth of lines as its part has, uniformly drawn from
             // the whole array; drawn alike in every run. Unless lines are in order they are drawn
             // 64 at a time, one of each index within the page: a cache whose sets the index is
             // part of meets in each set independent lines, so every mean is the same.
};

// One array walked by a sweep, from its first page on. `shift` moves the walk by that many pages (a
// stencil's neighbouring planes, a block of a matrix); what falls outside the array is skipped.
struct SweepStream {
    unsigned array;
    StreamKind kind;
    std::int64_t shift = 0;
    std::uint64_t pages = 0;  // how many it walks; 0: as many as the array has
    double stride = 1;        // of `stride` lines, in order, one is moved
    Walk walk = Walk::parts;
};

// One loop: its streams advance together from the first to the last element; a longer walk advances
// proportionally faster.
struct Sweep {
    unsigned phase;
    bool first_touch;              // maps those of the pages it visits that are not mapped
    double instructions_per_line;  // of the sweep's longest walk
    std::vector<SweepStream> streams;
    std::vector<unsigned> unmapped = {};  // arrays that are given back when it ends
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
