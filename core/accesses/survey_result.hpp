// The result of a survey of a trace: totals and objects, and the pages in the order of first write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/accesses/first_writers.hpp"
#include "core/accesses/live_course.hpp"
#include "core/accesses/object_map.hpp"
#include "core/accesses/thread_load.hpp"

namespace pagelens {

// Blocks and variables of this size are worth being moved apart (Padding).
inline constexpr std::uint64_t large_block_bytes = std::uint64_t{1} << 20;

struct SurveyedObject {
    ObjectOrigin origin;
    std::uint64_t births = 0;
    // The bytes of a call site's live blocks; of any other object, the bytes of its resident pages
    // in which no block was touched.
    std::uint64_t peak_bytes = 0;
    std::uint64_t lines_fetched = 0;  // past the tracer's filter
    std::uint64_t lines_stored = 0;   // made dirty, or stored past the caches
};

struct PageRange {
    std::uint64_t first;  // virtual page number
    std::uint64_t count;
};

// The parts of a run between the moments at which a phase begins or processes meet: what ends each
// part, and what was done in it. A part has the same index in each of these.
struct Rounds {
    std::vector<std::uint32_t> phases;  // that the part belongs to
    // How many processes meet at its end, as a collective call of MPI lets them, or a packed
    // Meeting of some processes; 0: a phase begins, or the run ends.
    std::vector<std::uint64_t> meeting;
    std::vector<std::uint64_t> instructions, lines;  // as phase_instructions and phase_lines
};

struct Survey {
    std::vector<SurveyedObject> objects;     // object 0 is the kernel's page clearing
    std::vector<std::string> phases;         // phase 0 is "before any marker"
    std::vector<std::uint32_t> phase_order;  // as they begin in the run
    // [phase] instructions of all threads but those of waiting for other processes, and lines that
    // passed the tracer's filter
    std::vector<std::uint64_t> phase_instructions, phase_lines;
    Rounds rounds;
    ThreadLoads thread_loads;                 // empty if there is one thread
    std::vector<PageRange> first_writes;      // in order; neighbours in a row are one range
    std::vector<FirstWriter> first_writers;   // as far as they are known
    std::vector<PageRange> large_blocks;      // by address; what ever overlapped is one
    std::vector<std::uint64_t> instructions;  // of each thread
    std::uint64_t peak_pages = 0;             // written, mapped at one time
    std::vector<std::uint64_t> cached_pages;  // of the page cache, by their indices in programs
    std::uint64_t file_pages = 0;             // of the page cache, read through mappings of files
    std::uint64_t lines_fetched = 0;
    // The number of these lines in anonymous pages that the program had not yet written. The kernel
    // shows its one zero page for all of them, whose lines stay in L1, so no replay has them.
    std::uint64_t lines_of_zero_page = 0;
    std::uint64_t lines_stored = 0;
    std::uint64_t line_events = 0;
    std::vector<std::string> warnings;  // of the events; the reader has its own
    LiveCourse live{0};                 // of the objects
};

}  // namespace pagelens
