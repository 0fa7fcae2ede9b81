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
    std::uint64_t device = 0, inode = 0;
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
    // A file that has lost its name, and shared memory that never had one, are known by what the
    // mapping says.
    std::optional<std::uint64_t> of_mapping(const FileMapping& mapping);
    // Returns page 0 of the memory that a process shows to the children that it forks. `id`: unlike
    // that of any other process.
    std::uint64_t of_memory(std::uint64_t id);
    // Returns the files that were numbered since the last call, or since name_anew().
    std::vector<FileDefinition> take_new();
    // All files are new again: for the trace of another process.
    void name_anew();
    // Around a fork (Tracer::hold_locks()).
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    std::optional<std::uint64_t> number(const struct stat& file, std::uint64_t offset);
    std::uint64_t number(std::uint64_t device, std::uint64_t inode);

    std::mutex mutex_;
    std::map<std::pair<dev_t, ino_t>, std::uint64_t> files_;  // the how-manieth
    std::vector<FileDefinition> new_;
};

}  // namespace pagelens
