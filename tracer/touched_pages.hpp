// The pages of anonymous memory that the kernel has given frames: what a program touched while
// nothing was traced.
#pragma once

#include <cstdint>
#include <functional>

namespace pagelens {

class TouchedPages {
  public:
    explicit TouchedPages(const char* maps = "/proc/self/maps",
                          const char* pagemap = "/proc/self/pagemap")
        : maps_(maps), pagemap_(pagemap) {}

    // Calls `emit(first page, count)` for the runs of such pages in the addresses [begin, end), by
    // address. Mappings that `owns` names are the engine's. Pages of files are left out: the kernel
    // maps the neighbours of those that were touched, too. A page of zeros that was only read
    // cannot be told from a written one.
    void scan(std::uint64_t begin, std::uint64_t end, bool (*owns)(std::uint64_t address),
              const std::function<void(std::uint64_t page, std::uint64_t count)>& emit) const;

  private:
    const char* maps_;
    const char* pagemap_;
};

}  // namespace pagelens
