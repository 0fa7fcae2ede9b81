// What the tracer needs to know of an ELF file: where its segments go, and its build id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagelens {

struct ElfImage {
    struct Load {  // one PT_LOAD, as in the file
        std::uint64_t file_offset, file_size, address, memory_size;
    };
    std::vector<Load> loads;
    std::string build_id;  // raw bytes of the GNU build id, empty if there is none

    // First and last + 1 address in the file's own terms, whole pages: .bss included.
    [[nodiscard]] std::uint64_t begin() const;
    [[nodiscard]] std::uint64_t end() const;
    // The address of the byte at `file_offset`; none if no segment holds it.
    [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;
};

// None if `path` is not a readable 64-bit ELF file that is loaded anywhere.
std::optional<ElfImage> read_elf(const std::string& path);

}  // namespace pagelens
