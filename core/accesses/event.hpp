// The events that leave the tracer's filter, in the order of the thread that caused them. The
// tracer writes them and the trace reader reads them. docs/trace-format.md gives the encoding.
#pragma once

#include <cstdint>

namespace pagelens {

enum class EventKind : std::uint8_t {
    // lines: `address` is the virtual line (address / 64), `count` how many touches before it a
    // reader left out
    read,          // the line was fetched by a load
    write,         // the line was fetched by a store
    first_store,   // first store to a line fetched by a load and still resident in the filter
    stream_store,  // non-temporal store (one event a line)
    touch,         // the line was used again: restores the recency of lines that hidden hits had
                   // changed, so that replays of caches stay exact; no TLB looks anything up
    page_touch,    // the line's page was used: the same for TLBs; no cache looks anything up
    // pages: `address` is the virtual page (address / 4096), `count` pages
    page_read,   // first read of one page
    page_write,  // first write of one page
    unmap,       // munmap, brk down, mmap over it
    discard,     // MADV_DONTNEED and kin: mapping stays, frames go
    remap,       // mremap: pages [address, +count) now stand at `extra`
    // objects: `address` is a virtual byte address
    birth,  // `count` bytes at `address`, allocated by call site `extra`
    death,  // the block at `address` was freed
    // order
    phase,  // region `extra` begins (0: none), the thread's instruction count is `count`
    sync,   // global order number `extra` reached at the thread's instruction count `count`
    // pages, as above
    map_file,  // pages [address, +count) show a file: page-cache pages `extra`, `extra` + 1, ...
    // order
    wait,  // at the thread's instruction count `count` it begins to wait for other processes, or
           // goes on: `extra` is a number of WaitKind, or says that all processes meet here (2 or
           // more), or is a packed Meeting of some (meeting.hpp)
    // pages, as above
    advise,  // the program asks for large pages for [address, +count) (MADV_HUGEPAGE) if `extra` is
             // 1, and for small ones (MADV_NOHUGEPAGE) if it is 0
};

// What `wait` says if it is no meeting.
enum class WaitKind : std::uint8_t { ended, no_meeting };

// Sets of lines by address bits 6 to 11, which every cache's index contains: bit i has the lines
// whose number is i modulo 64, those at place i of their pages.
using LineSets = std::uint64_t;
inline constexpr LineSets all_line_sets = ~LineSets{0};

struct Event {
    EventKind kind;
    std::uint64_t address = 0;
    std::uint64_t count = 0;
    std::uint64_t extra = 0;
    friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace pagelens
