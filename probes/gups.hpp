// RandomAccess of HPC Challenge (https://hpcchallenge.org, RandomAccess rules): random updates of a
// table of 2^k 64-bit words, table[r mod 2^k] ^= r for each r of a shift register's sequence.
//
// An update is one read and one write of 8 bytes; GUPS is updates / seconds / 1e9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "probes/memory.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {

inline constexpr std::size_t least_gups_table = 64 << 10;  // bytes

struct GupsResult {
    double seconds;  // of all updates, the slowest thread's
    std::uint64_t updates;
    std::uint64_t errors;  // words that lost updates to other threads; 0 with one
    bool official;         // HPCC's rules were followed: see gups()
};

// Makes `updates` updates of the memory's first `table_bytes` (a power of two), in as many parts of
// the sequence as threads (of whole multiples of 128, so that they differ), each of which looks
// ahead by at most 1024 updates, as the rules allow; then makes them once more, exactly, and counts
// words that are not what they were at first.
//
// Errors are the benchmark's own: threads read and write words without locks, and of two updates of
// one word at once one is lost. The smaller the table, the more: with one of 64 KiB to 1 MiB, two
// threads exceed 1% now and then. They say nothing about the memory, but where there is one thread,
// which loses none.
//
// official: the table is the largest power of two that is at most half of the machine's memory,
// there are 4 updates a word, and at most 1% of the words are wrong.
// std::invalid_argument: a table that is no power of two, of less than least_gups_table or beyond
// the memory; updates of 0 or no multiple of 128; cpus.
GupsResult gups(const Memory& memory, std::size_t table_bytes, std::uint64_t updates,
                std::span<const int> cpus);

// The n-th number of the register's sequence, the 0th being 1.
std::uint64_t gups_number(std::uint64_t n);

// A thread's part of so many updates (a multiple of 128): whole multiples of 128, none for some
// where there are more threads than that.
Member::Part gups_part(const Member& member, std::uint64_t updates);

// Makes the updates first + 1 .. first + updates of the sequence (a multiple of 128), 128 numbers
// at a time; the table's size is a power of two. Where several threads update it, `exact` ones are
// atomic; others may lose an update, as HPCC's do. Ends early where a stop is requested.
void gups_update(std::span<std::uint64_t> table, std::uint64_t first, std::uint64_t updates,
                 bool exact);

}  // namespace pagelens::probes
