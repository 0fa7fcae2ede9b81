#include "tracer/mappings.hpp"

#include <fstream>
#include <sstream>
#include <utility>

#include "core/address/units.hpp"

namespace pagelens {

std::optional<FileMapping> parse_mapping(const std::string& text) {
    if (text.find('/') == std::string::npos) return std::nullopt;
    std::istringstream in(text);
    FileMapping mapping{};
    char dash = 0;
    std::string perms, dev, inode;
    in >> std::hex >> mapping.begin >> dash >> mapping.end >> perms >> mapping.offset >> dev >>
        inode >> std::ws;
    if (!in || dash != '-') return std::nullopt;
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

std::optional<std::uint64_t> PageCacheNumbers::of_path(const std::string& path,
                                                       std::uint64_t offset) {
    struct stat file;
    if (stat(path.c_str(), &file) != 0) return std::nullopt;
    return number(file, offset);
}

std::optional<std::uint64_t> PageCacheNumbers::number(const struct stat& file,
                                                      std::uint64_t offset) {
    const std::uint64_t page = offset / page_bytes;
    if (!S_ISREG(file.st_mode) || page >> file_bits != 0) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = files_.try_emplace({file.st_dev, file.st_ino}, files_.size());
    if (is_new) new_.push_back({known->second, file.st_dev, file.st_ino});
    return known->second << file_bits | page;
}

std::vector<FileDefinition> PageCacheNumbers::take_new() {
    const std::lock_guard lock(mutex_);
    return std::exchange(new_, {});
}

}  // namespace pagelens
