// The options that a trace is compiled with, and the program that results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/accesses/padding.hpp"
#include "core/accesses/page_runs.hpp"
#include "core/accesses/program.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_walk.hpp"

namespace pagelens {

// LRU, write-back, write-allocate.
struct PrivateCache {
    CacheShape shape;
    unsigned threads = 1;  // that share it: neighbours in the order of the trace's threads
};

// Selects the lines that become ops. A cache whose index has address bits 6 to 11 treats the lines
// of some sets as if it saw no others. So the counts of these sets are exact, and a sample of all
// sets.
struct LineSample {
    LineSets sets = all_line_sets;
    // TLBs have no such sets. For them, one in so many instructions of every interval has lines of
    // all sets as ops that touch. 0 means never.
    std::uint32_t touching = 0;
};

// The counts of a program whose lines are sampled, by interval.
struct SampleCounts {
    // [interval * objects + object] is the number of lines that passed the tracer's filter, and of
    // those among them that are in the sample.
    std::vector<std::uint64_t> seen, kept;
    std::vector<std::uint64_t> touched;  // [interval] of those seen
    std::vector<std::uint8_t> users;     // [object * threads + thread] 1 if it moved any
};

struct CompileOptions {
    // The nearest cache comes first, and belongs to one thread. Without caches, lines are as they
    // left the tracer's filter. Set indices lie below `page_bits`.
    std::vector<PrivateCache> private_caches;
    unsigned page_bits = 12;  // of the pages that placement will use; at most 30
    LineOrder order = LineOrder::by_set;
    Padding padding = {};  // by whole pages: what bits 6 to 11 index does not notice
    // Cut the run into intervals of so many instructions of all threads, and where a marked phase
    // begins (unless the interval has just begun); each is a phase of the program then. 0: no cuts.
    std::uint64_t interval_instructions = 0;
    LineSample sample = {};
};

// The ops of a trace in memory, 16 bytes each. Pages are numbered in the order of their addresses.
class CompiledTrace : public Program {
  public:
    [[nodiscard]] virtual std::uint64_t ops() const = 0;
    [[nodiscard]] virtual std::uint64_t lines() const = 0;  // of all ops, by kinds of lines
    [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;
    // Returns the marked phase that each interval lies in; nothing without intervals.
    [[nodiscard]] virtual const std::vector<unsigned>& interval_phases() const = 0;
    // Is empty unless lines are sampled.
    [[nodiscard]] virtual const SampleCounts& sampled() const = 0;
};

}  // namespace pagelens
