// The page tables of one address space: which frame holds each table, so that a walk has physical
// addresses and can go through the caches like any other load.
//
// Four levels of 4 KiB tables of 512 entries of 8 bytes (Intel 64 and IA-32 Architectures Software
// Developer's Manual, vol. 3A, 4.5; AMD64 Architecture Programmer's Manual, vol. 2, 5.3). A level
// is named by what its entries map: 1 the page table (4 KiB), 2 the page directory (2 MiB), 3 the
// page-directory-pointer table (1 GiB), 4 the PML4, of which there is one.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/address/units.hpp"

namespace pagelens {

enum class PageSize : std::uint8_t { small, large, huge };  // 4 KiB, 2 MiB, 1 GiB

inline constexpr unsigned page_sizes = 3;
inline constexpr unsigned table_levels = 4;
inline constexpr unsigned virtual_bits = 48;  // of an address, with four levels

// Returns the level whose entry is the translation of a page of that size.
constexpr unsigned leaf_level(PageSize size) { return 1 + static_cast<unsigned>(size); }
// Returns the number of address bits below those that index tables of that level.
constexpr unsigned level_shift(unsigned level) { return page_bits + 9 * (level - 1); }
constexpr unsigned page_shift(PageSize size) { return level_shift(leaf_level(size)); }

class PageTables {
  public:
    // Gives the missing tables that a page at `address` needs (3 to 1 below the PML4) the frames
    // that take_frame() returns, the highest table first. The PML4 gets its frame with the first
    // page. Throws std::invalid_argument if the address has more than 48 bits.
    template <class TakeFrame>
    void map(VirtualAddress address, PageSize size, TakeFrame&& take_frame) {
        if (address.raw() >> virtual_bits != 0)
            throw std::invalid_argument("a virtual address has more than 48 bits");
        if (tables_.empty()) add(take_frame());
        std::uint32_t table = 0;
        for (unsigned level = table_levels; level > leaf_level(size); --level) {
            const unsigned entry = index(address, level);
            if (level == 2) {  // page tables have nothing below them: only their frame is kept
                if (tables_[table].below[entry] == none)
                    tables_[table].below[entry] = take_frame().raw();
                return;
            }
            if (tables_[table].below[entry] == none) {
                const std::uint32_t added = add(take_frame());
                tables_[table].below[entry] = added;
            }
            table = tables_[table].below[entry];
        }
    }

    // Returns whether `map` made all tables that a walk for such a page reads.
    [[nodiscard]] bool maps(VirtualAddress address, PageSize size) const {
        if (tables_.empty() || address.raw() >> virtual_bits != 0) return false;
        std::uint32_t table = 0;
        for (unsigned level = table_levels; level > leaf_level(size); --level) {
            table = tables_[table].below[index(address, level)];
            if (table == none) return false;
        }
        return true;
    }

    // Returns, as [level - 1], the physical byte address of the entry that a walk reads at that
    // level, from the page's leaf level to 4; below it nothing is written. Precondition:
    // maps(address, size).
    [[nodiscard]] std::array<std::uint64_t, table_levels> entries(VirtualAddress address,
                                                                  PageSize size) const {
        assert(maps(address, size));
        std::array<std::uint64_t, table_levels> result{};
        std::uint32_t table = 0;
        for (unsigned level = table_levels;; --level) {
            const unsigned entry = index(address, level);
            const std::uint32_t frame = level == 1 ? table : tables_[table].frame;
            result[level - 1] = std::uint64_t{frame} * page_bytes + 8 * entry;
            if (level == leaf_level(size)) return result;
            table = tables_[table].below[entry];
        }
    }

  private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    static constexpr unsigned table_entries = 512;

    struct Table {
        std::uint32_t frame;
        // The target of each entry: at levels 4 and 3 a table, at level 2 a page table's frame.
        std::array<std::uint32_t, table_entries> below;
    };

    static unsigned index(VirtualAddress address, unsigned level) {
        return static_cast<unsigned>(address.raw() >> level_shift(level)) % table_entries;
    }
    std::uint32_t add(Frame frame) {
        Table& table = tables_.emplace_back();
        table.frame = frame.raw();
        table.below.fill(none);
        return static_cast<std::uint32_t>(tables_.size() - 1);
    }

    std::vector<Table> tables_;  // of levels 4 to 2; the PML4 first
};

}  // namespace pagelens
