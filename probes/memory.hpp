// Memory to measure in: a mapping of its own, whose pages the threads that will use them populate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "probes/pages.hpp"

namespace pagelens::probes {

class Memory {
  public:
    // Maps `bytes` (rounded up to whole pages). Of each array, which begins at arrays[j] and ends
    // where the next begins or the memory ends, the thread on cpus[i] populates the i-th share (of
    // whole pages): first touch puts what a thread uses on its NUMA node. Failure, with the remedy:
    // no such memory or no such pages. std::invalid_argument: bytes; arrays that do not begin with
    // 0, ascend and stay below bytes; cpus.
    Memory(std::size_t bytes, Pages pages, std::span<const int> cpus,
           std::span<const std::size_t> arrays);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] std::uintptr_t address() const {
        return reinterpret_cast<std::uintptr_t>(mapping_.address);
    }
    [[nodiscard]] std::size_t bytes() const { return mapping_.bytes; }
    [[nodiscard]] Pages pages() const { return pages_; }

    // Gives the frames back, once nobody uses the memory; a second time does nothing.
    void release();

    // Frame (in units of 4 KiB) of each 4 KiB page, 0 for one that is in no frame now. Empty where
    // the kernel does not show them: that needs CAP_SYS_ADMIN.
    [[nodiscard]] std::vector<std::uint64_t> frames() const;
    // Share of the bytes that lie in pages of 2 MiB or 1 GiB now.
    [[nodiscard]] double large_share() const;

    // Right to the memory while a kernel runs: others wait. std::invalid_argument where it has been
    // released.
    class Use {
      public:
        explicit Use(const Memory& memory);
        // `count` objects at `offset` bytes; std::invalid_argument where they do not lie in the
        // memory or are not aligned, with `name` for what they are.
        template <class T>
        T* at(std::size_t offset, std::size_t count, const char* name) const {
            return reinterpret_cast<T*>(checked(offset, count, sizeof(T), name));
        }

      private:
        [[nodiscard]] std::byte* checked(std::size_t offset, std::size_t count, std::size_t size,
                                         const char* name) const;
        const Memory& memory_;
        std::lock_guard<std::mutex> lock_;
    };

  private:
    Pages pages_;
    Mapping mapping_;
    bool released_ = false;
    mutable std::mutex mutex_;
};

}  // namespace pagelens::probes
