// Which file is mapped at a code address of the guest: executables and libraries, so that an
// address becomes (module, offset in the file), which still means something offline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pagelens {

struct CodeAddress {
    std::uint32_t module;  // index of the module, from 0, in the order of definition
    std::uint64_t offset;  // in the module's file, bytes
    friend bool operator==(const CodeAddress&, const CodeAddress&) = default;
};

enum class ModuleRole : std::uint8_t {
    program,    // the program and its libraries
    allocator,  // libc, libstdc++ and allocators: never named as the site of an allocation
    hooks,      // our interposer: its accesses and frames are not the program's
};

// The role that a file has by its name.
ModuleRole role_of(const std::string& path);

// The GNU build id of an ELF file in hexadecimal; empty where there is none.
std::string build_id_of(const std::string& path);

class Modules {
  public:
    using Define = std::function<void(std::uint32_t module, const std::string& path,
                                      const std::string& build_id)>;

    // `define` is called once for each module, before its index is first returned. `maps` is read
    // anew when an address is unknown and `changed` was called since the last reading.
    Modules(std::uint64_t guest_base, Define define, std::string maps = "/proc/self/maps");

    // The guest mapped or unmapped [begin, end). Cheap; from any thread.
    void changed(std::uint64_t begin, std::uint64_t end);

    // The place of guest address `address`; none if no file is mapped there. From any thread.
    std::optional<CodeAddress> find(std::uint64_t address);
    // The role of the file at `address`; `program` if there is none. From any thread.
    ModuleRole role_at(std::uint64_t address);

    // Grows when a known module goes: what was derived from addresses before is void.
    std::uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

  private:
    struct Segment {
        std::uint64_t begin, end, file_offset;  // guest addresses
        std::uint32_t file;                     // into files_
    };
    struct File {
        std::string path;
        ModuleRole role;
        std::optional<std::uint32_t> module;  // once defined
    };

    const Segment* segment_at(std::uint64_t address);
    void read_maps();
    std::uint32_t file_index(const std::string& path);

    const std::uint64_t guest_base_;
    const Define define_;
    const std::string maps_;
    std::mutex mutex_;               // of everything below
    std::vector<Segment> segments_;  // by address
    std::vector<File> files_;
    std::uint32_t defined_ = 0;
    bool stale_ = true;  // the mappings may differ from segments_
    std::atomic<std::uint64_t> generation_{0};
};

}  // namespace pagelens
