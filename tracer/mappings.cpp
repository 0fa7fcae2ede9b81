#include "tracer/mappings.hpp"

#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "core/address/units.hpp"

namespace pagelens {

std::optional<FileMapping> parse_mapping(const std::string& text) {
    if (text.find('/') == std::string::npos) return std::nullopt;
    std::istringstream in(text);
    FileMapping mapping{};
    char dash = 0, colon = 0;
    std::string perms;
    unsigned major = 0, minor = 0;
    in >> std::hex >> mapping.begin >> dash >> mapping.end >> perms >> mapping.offset >> major >>
        colon >> minor >> std::dec >> mapping.inode >> std::ws;
    if (!in || dash != '-' || colon != ':') return std::nullopt;
    mapping.device = makedev(major, minor);
    std::getline(in, mapping.path);
    mapping.shared = perms.find('s') != std::string::npos;
    return mapping;
}

std::vector<FileMapping> read_mappings(const std::string& maps) {
    std::vector<FileMapping> found;
    std::ifstream in(maps);
    for (std::string text; std::getline(in, text);)
        if (auto mapping = parse_mapping(text)) found.push_back(std::move(*mapping));
    return found;
}

std::optional<std::uint64_t> PageCacheNumbers::of_descriptor(int descriptor, std::uint64_t offset) {
    struct stat file;
    if (fstat(descriptor, &file) != 0) return std::nullopt;
    return number(file, offset);
}

std::optional<std::uint64_t> PageCacheNumbers::of_mapping(const FileMapping& mapping) {
    struct stat file;
    if (stat(mapping.path.c_str(), &file) == 0) return number(file, mapping.offset);
    const std::uint64_t page = mapping.offset / page_bytes;
    if (mapping.inode == 0 || page >> file_bits != 0) return std::nullopt;
    return number(mapping.device, mapping.inode) | page;
}

std::optional<std::uint64_t> PageCacheNumbers::number(const struct stat& file,
                                                      std::uint64_t offset) {
    const std::uint64_t page = offset / page_bytes;
    if (!S_ISREG(file.st_mode) || page >> file_bits != 0) return std::nullopt;
    return number(file.st_dev, file.st_ino) | page;
}

// No file is on device 0.
std::uint64_t PageCacheNumbers::of_memory(std::uint64_t id) { return number(0, id); }

std::uint64_t PageCacheNumbers::number(std::uint64_t device, std::uint64_t inode) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = files_.try_emplace({device, inode}, files_.size());
    if (is_new) new_.push_back({known->second, device, inode});
    return known->second << file_bits;
}

void PageCacheNumbers::name_anew() {
    const std::lock_guard lock(mutex_);
    new_.clear();
    for (const auto& [file, number] : files_) new_.push_back({number, file.first, file.second});
}

std::vector<FileDefinition> PageCacheNumbers::take_new() {
    const std::lock_guard lock(mutex_);
    return std::exchange(new_, {});
}

}  // namespace pagelens
