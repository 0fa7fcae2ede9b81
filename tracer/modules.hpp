// Tracks which file is mapped at an address of the guest, executables and libraries, so that a code
// address still means something offline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/accesses/trace_format.hpp"

namespace pagelens {

enum class ModuleRole : std::uint8_t {
    program,  // the program and its libraries
    runtime,  // a language's (libc, libstdc++, libgomp, ...) or an allocator: never the site of a
              // block
    hooks,    // our interposer: its accesses and frames are not the program's
};

// The role that a file has by its name.
ModuleRole role_of(const std::string& path);

class Modules {
  public:
    using Define = std::function<void(const ModuleDefinition&)>;
    struct Found {
        std::uint32_t module;  // from 0, in the order of definition
        ModuleRole role;
    };

    // `define` is called once a module, before `find` first returns it, under a lock. `maps` is
    // read anew when an address is unknown and `changed` was called since the last reading.
    Modules(std::uint64_t guest_base, Define define, std::string maps = "/proc/self/maps");

    // The guest mapped or unmapped [begin, end). Cheap; from any thread.
    void changed(std::uint64_t begin, std::uint64_t end);

    // The module that holds guest address `address`, its .bss included. From any thread.
    std::optional<Found> find(std::uint64_t address);

    // Grows when a known module goes: what was derived from addresses before is void.
    std::uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

  private:
    struct Module {  // one mapping of one file
        ModuleDefinition definition;
        ModuleRole role;
        bool live;                            // mapped, as far as is known
        std::optional<std::uint32_t> number;  // once defined
    };

    Module* live_module_at(std::uint64_t address);
    void read_maps();

    const std::uint64_t guest_base_;
    const Define define_;
    const std::string maps_;
    std::mutex mutex_;  // of what follows
    std::vector<Module> modules_;
    std::uint32_t defined_ = 0;
    bool stale_ = true;  // the mappings may differ from modules_
    std::atomic<std::uint64_t> generation_{0};
};

}  // namespace pagelens
