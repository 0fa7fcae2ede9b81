// What a program does to memory, as the machine models see it: runs of lines of one page, and the
// events that give pages their frames and take them back.
//
// An Op names up to 64 lines of one page by a mask. Merging the lines of a page into one op keeps
// every count exact for set-indexed caches whose set index contains address bits 6..11 unchanged:
// sets are independent, and the order of accesses *within* a set is preserved (page_runs.hpp).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace pagelens {

enum class OpKind : std::uint8_t {
    fetch,       // lines read by the level below the private filter (loads and stores that missed)
    write_back,  // dirty lines leaving the private filter
    stream_store,  // non-temporal stores: full lines that bypass the private caches
    touch,         // no data moves; the page was used (TLBs only)
    map_read,      // first read of a page: `lines` is 1 + the index of the page-cache page that all
                   // copies of the program share; 0: anonymous memory, the kernel's one zero page
    map_write,     // first write of a page: it needs a frame, which the kernel clears. `lines` is
                   // that of map_read if it goes to a page of a file, through a shared mapping:
                   // copies have a file each, but processes of a job have one (job.hpp)
    unmap,   // munmap, brk, MADV_DONTNEED: `lines` pages from `page` on give their frames back
    phase,   // `page` is the index of the phase that begins
    skip,    // lines that are left out (core/replay/excerpt.hpp): `lines` is a count, of all ranks
    recall,  // lines that caches hold from what was left out, by the thread that used them last
    recall_dirty,  // the same, of lines that were written
    meet,          // a collective call of `lines` processes, which no one leaves before all have
                   // come: the processes of a job wait for each other (job.hpp)
    hint_fault,    // of NUMA balancing; if `lines` is 1, the page moves to the NUMA node of the
                   // thread (core/replay/numa_balancing.hpp)
    swap_threads,  // threads `page` and `lines` of all copies exchange their cores
                   // (core/replay/moving_threads.hpp)
};

struct Op {
    std::uint32_t page;         // dense page index of the program (Program::pages maps to virtual)
    std::uint16_t object;       // index into the program's objects
    std::uint16_t thread : 12;  // index of the program's thread
    std::uint16_t kind_bits : 4;
    std::uint64_t lines;  // mask of lines; for unmap a count of pages

    [[nodiscard]] OpKind kind() const { return static_cast<OpKind>(kind_bits); }
};
static_assert(sizeof(Op) == 16);

inline Op make_op(OpKind kind, std::uint32_t page, std::uint64_t lines, std::uint16_t object = 0,
                  unsigned thread = 0) {
    // Put together in registers: a copy of fields that were stored one by one has to wait for them.
    const std::uint64_t head = page | std::uint64_t{object} << 32 |
                               std::uint64_t{thread & 0xfff} << 48 |
                               static_cast<std::uint64_t>(kind) << 60;
    return std::bit_cast<Op>(std::array{head, lines});
}

}  // namespace pagelens
