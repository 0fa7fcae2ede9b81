// What the tracer needs to know of an ELF file: where it goes in memory, and its build id.
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
    // Those that show the file, what its segments hold of it, by address; the others are .bss.
    std::vector<PageSpan> file_backed;
    std::string build_id;  // raw bytes of the GNU build id, empty if there is none
};

// None if `path` is not a readable 64-bit ELF file that is loaded anywhere.
std::optional<ElfImage> read_elf(const std::string& path);

}  // namespace pagelens
