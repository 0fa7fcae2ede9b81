// The words of Linux's page allocator that everything here shares.
#pragma once

#include <cstdint>

namespace pagelens {

inline constexpr unsigned max_order = 10;       // 4 MiB, the largest free block on x86-64
inline constexpr unsigned pageblock_order = 9;  // 2 MiB, the unit that has a migrate type

inline constexpr std::uint32_t pageblock_frames = 1u << pageblock_order;

inline constexpr unsigned small_order = 0;      // a 4 KiB page
inline constexpr unsigned huge_order = 9;       // a 2 MiB page
inline constexpr unsigned gigantic_order = 18;  // a 1 GiB page

// The kinds of pageblocks. Free blocks of an `isolate` pageblock are kept from allocation: its
// memory goes offline, or its range is being evacuated. Linux's HIGHATOMIC and CMA are not
// modelled.
enum class MigrateType : std::uint8_t { unmovable, movable, reclaimable, isolate };
inline constexpr unsigned migrate_types = 4;
inline constexpr unsigned pcp_types = 3;  // the first three have per-cpu lists

}  // namespace pagelens
