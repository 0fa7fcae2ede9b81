#include "tracer/modules.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace pagelens {

namespace {

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: no slash, the whole
}

// One line of /proc/PID/maps: "begin-end perms offset dev inode   path".
struct MapsLine {
    std::uint64_t begin, end, offset;
    std::string path;
};

std::optional<MapsLine> parse_maps_line(const std::string& text) {
    std::istringstream in(text);
    MapsLine line{};
    char dash = 0;
    std::string perms, dev, inode;
    in >> std::hex >> line.begin >> dash >> line.end >> perms >> line.offset >> dev >> inode >>
        std::ws;
    if (!in || dash != '-') return std::nullopt;
    std::getline(in, line.path);
    return line.path.starts_with('/') ? std::optional(line) : std::nullopt;
}

template <class Record>
bool read_at(std::istream& in, std::uint64_t offset, Record& record) {
    in.seekg(static_cast<std::streamoff>(offset));
    in.read(reinterpret_cast<char*>(&record), sizeof record);
    return in.good();
}

// The build id among the notes in the segment [offset, end) of `in`; empty if it is not there.
// Notes are a header, a name and a description, the last two padded to 4 bytes (ELF gABI).
std::string build_id_in_notes(std::istream& in, std::uint64_t offset, std::uint64_t end) {
    Elf64_Nhdr note;
    while (offset < end && read_at(in, offset, note)) {
        const auto padded = [](std::uint64_t n) { return (n + 3) & ~std::uint64_t{3}; };
        char name[4] = {};
        const std::uint64_t description = offset + sizeof note + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof name &&
            read_at(in, offset + sizeof note, name) && std::memcmp(name, "GNU", 4) == 0) {
            std::string id;
            unsigned char byte = 0;
            for (std::uint64_t i = 0; i < note.n_descsz && i < 64; ++i) {
                if (!read_at(in, description + i, byte)) return {};
                char digits[3];
                std::snprintf(digits, sizeof digits, "%02x", byte);
                id += digits;
            }
            return id;
        }
        offset = description + padded(note.n_descsz);
    }
    return {};
}

}  // namespace

ModuleRole role_of(const std::string& path) {
    // By the stem of the file's name: libc.so.6, libc-2.31.so, libstdc++.so.6.0.30, ...
    static constexpr std::string_view allocators[] = {
        "ld-linux-x86-64", "ld-musl-x86_64",      "ld",          "libc",
        "libc++",          "libc++abi",           "libstdc++",   "libjemalloc",
        "libtcmalloc",     "libtcmalloc_minimal", "libmimalloc", "libtbbmalloc"};
    const std::string_view name = base_name(path);
    if (name.starts_with("libpagelens_hooks.")) return ModuleRole::hooks;
    for (const std::string_view stem : allocators) {
        if (!name.starts_with(stem)) continue;
        const std::string_view rest = name.substr(stem.size());
        const bool versioned =
            rest.size() > 1 && rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9';
        if (rest.starts_with(".so") || versioned) return ModuleRole::allocator;
    }
    return ModuleRole::program;
}

std::string build_id_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    Elf64_Ehdr header;
    if (!read_at(in, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64)
        return {};
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        if (!read_at(in, header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment))
            return {};
        if (segment.p_type != PT_NOTE) continue;
        const std::string id =
            build_id_in_notes(in, segment.p_offset, segment.p_offset + segment.p_filesz);
        if (!id.empty()) return id;
        in.clear();
    }
    return {};
}

Modules::Modules(std::uint64_t guest_base, Define define, std::string maps)
    : guest_base_(guest_base), define_(std::move(define)), maps_(std::move(maps)) {}

void Modules::changed(std::uint64_t begin, std::uint64_t end) {
    const std::lock_guard lock(mutex_);
    stale_ = true;
    const bool replaced = std::any_of(segments_.begin(), segments_.end(), [&](const Segment& s) {
        return begin < s.end && s.begin < end;
    });
    if (!replaced) return;
    segments_.clear();
    generation_.fetch_add(1, std::memory_order_relaxed);
}

std::optional<CodeAddress> Modules::find(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const Segment* segment = segment_at(address);
    if (segment == nullptr) return std::nullopt;
    File& file = files_[segment->file];
    if (!file.module) {
        file.module = defined_++;
        define_(*file.module, file.path, build_id_of(file.path));
    }
    return CodeAddress{*file.module, address - segment->begin + segment->file_offset};
}

ModuleRole Modules::role_at(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const Segment* segment = segment_at(address);
    return segment == nullptr ? ModuleRole::program : files_[segment->file].role;
}

const Modules::Segment* Modules::segment_at(std::uint64_t address) {
    const auto look_up = [&]() -> const Segment* {
        const auto after =
            std::upper_bound(segments_.begin(), segments_.end(), address,
                             [](std::uint64_t a, const Segment& s) { return a < s.begin; });
        if (after == segments_.begin()) return nullptr;
        const Segment& segment = *std::prev(after);
        return address < segment.end ? &segment : nullptr;
    };
    const Segment* segment = look_up();
    if (segment == nullptr && stale_) {
        read_maps();
        stale_ = false;
        segment = look_up();
    }
    return segment;
}

void Modules::read_maps() {
    segments_.clear();
    std::ifstream in(maps_);
    for (std::string text; std::getline(in, text);) {
        const auto line = parse_maps_line(text);
        if (!line || line->begin < guest_base_) continue;
        segments_.push_back({line->begin - guest_base_, line->end - guest_base_, line->offset,
                             file_index(line->path)});
    }
}

std::uint32_t Modules::file_index(const std::string& path) {
    const auto known =
        std::find_if(files_.begin(), files_.end(), [&](const File& f) { return f.path == path; });
    if (known == files_.end()) {
        files_.push_back({path, role_of(path), std::nullopt});
        return static_cast<std::uint32_t>(files_.size() - 1);
    }
    return static_cast<std::uint32_t>(known - files_.begin());
}

}  // namespace pagelens
