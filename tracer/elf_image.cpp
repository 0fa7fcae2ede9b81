#include "tracer/elf_image.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/address/units.hpp"

namespace pagelens {

namespace {

constexpr std::uint64_t max_build_id = 64;  // bytes; the linkers' are 8 to 32

std::uint64_t page_down(std::uint64_t address) { return address & ~(page_bytes - 1); }
std::uint64_t page_up(std::uint64_t address) { return page_down(address + page_bytes - 1); }
std::uint64_t padded(std::uint64_t n) { return (n + 3) & ~std::uint64_t{3}; }

bool read_at(std::istream& in, std::uint64_t offset, void* out, std::size_t n) {
    in.clear();
    in.seekg(static_cast<std::streamoff>(offset));
    in.read(static_cast<char*>(out), static_cast<std::streamsize>(n));
    return in.good();
}

// The build id among the notes in [offset, end) of the file. A note is a header, a name and a
// description, the last two padded to 4 bytes (System V gABI, "Note Section").
std::string build_id_in(std::istream& in, std::uint64_t offset, std::uint64_t end) {
    Elf64_Nhdr note;
    while (offset < end && read_at(in, offset, &note, sizeof note)) {
        char name[4] = {};
        const std::uint64_t description = offset + sizeof note + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof name &&
            note.n_descsz <= max_build_id && read_at(in, offset + sizeof note, name, sizeof name) &&
            std::memcmp(name, "GNU", sizeof name) == 0) {
            std::string id(note.n_descsz, '\0');
            return read_at(in, description, id.data(), id.size()) ? id : std::string();
        }
        offset = description + padded(note.n_descsz);
    }
    return {};
}

// Segments ascend (gABI), and mostly touch.
void add_file_backed(ElfImage& image, const Elf64_Phdr& segment) {
    if (segment.p_filesz == 0) return;
    const std::uint64_t begin = page_down(segment.p_vaddr);
    const std::uint64_t end = page_up(segment.p_vaddr + segment.p_filesz);
    if (image.file_backed.empty() || image.file_backed.back().end < begin)
        image.file_backed.push_back({begin, end});
    else
        image.file_backed.back().end = std::max(image.file_backed.back().end, end);
}

}  // namespace

std::optional<ElfImage> read_elf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    Elf64_Ehdr header;
    if (!in || !read_at(in, 0, &header, sizeof header) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return std::nullopt;
    ElfImage image;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        const std::uint64_t at = header.e_phoff + std::uint64_t{i} * header.e_phentsize;
        if (!read_at(in, at, &segment, sizeof segment)) return std::nullopt;
        if (segment.p_type == PT_LOAD && image.end == 0) {  // the first is the lowest (gABI)
            image.begin = page_down(segment.p_vaddr);
            image.file_offset = page_down(segment.p_offset);
        }
        if (segment.p_type == PT_LOAD) {
            image.end = std::max(image.end, page_up(segment.p_vaddr + segment.p_memsz));
            add_file_backed(image, segment);
        }
        if (segment.p_type == PT_NOTE && image.build_id.empty())
            image.build_id = build_id_in(in, segment.p_offset, segment.p_offset + segment.p_filesz);
    }
    if (image.end == 0) return std::nullopt;
    return image;
}

}  // namespace pagelens
