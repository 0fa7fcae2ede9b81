// Tracks which memory of the program shows which file.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/trace_format.hpp"

namespace pagelens {

// One line of /proc/PID/maps that shows a file: "begin-end perms offset dev inode   path".
struct FileMapping {
    std::uint64_t begin, end, offset;  // bytes
    std::string path;
    bool shared = false;
};

std::optional<FileMapping> parse_mapping(const std::string& text);
// All of them. `maps`: the path of such a file.
std::vector<FileMapping> read_mappings(const std::string& maps);

// Numbers the pages of the kernel's page cache: those of one file follow each other, whatever name
// or descriptor the program has the file by. Any thread may ask.
class PageCacheNumbers {
  public:
    // Returns the page at byte `offset` of a file, or nothing if that is not a regular file.
    std::optional<std::uint64_t> of_descriptor(int descriptor, std::uint64_t offset);
    std::optional<std::uint64_t> of_path(const std::string& path, std::uint64_t offset);
    // Returns the files that were numbered since the last call.
    std::vector<FileDefinition> take_new();
    // Around a fork (Tracer::hold_locks()).
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    std::optional<std::uint64_t> number(const struct stat& file, std::uint64_t offset);

    std::mutex mutex_;
    std::map<std::pair<dev_t, ino_t>, std::uint64_t> files_;  // the how-manieth
    std::vector<FileDefinition> new_;
};

}  // namespace pagelens
