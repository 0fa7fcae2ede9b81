// Reads where an ELF file goes in memory, and its build id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagelens {

struct PageSpan {
    std::uint64_t begin, end;  // addresses
};

struct ElfImage {
    // Whole pages, in the file's own addresses, .bss included: [begin, end).
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t file_offset = 0;  // of the page at `begin`
    // The pages that show the file, as far as its segments hold it, by address. The others are
    // .bss.
    std::vector<PageSpan> file_backed;
    std::string build_id;  // raw bytes of the GNU build id, empty if there is none
};

// Returns nothing if `path` is not a readable 64-bit ELF file that is loaded anywhere.
std::optional<ElfImage> read_elf(const std::string& path);

}  // namespace pagelens
