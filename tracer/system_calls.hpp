// Works out what a system call did to the program's pages, from its number, arguments and result.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/intervals.hpp"
#include "tracer/mappings.hpp"

namespace pagelens {

struct SystemCall {
    std::int64_t number = -1;
    std::uint64_t argument[6] = {};
};

// x86-64 Linux (arch/x86/entry/syscalls/syscall_64.tbl).
// clang-format off
namespace nr {
enum : std::int64_t {
    read = 0, write = 1, mmap = 9, munmap = 11, brk = 12, pread64 = 17, readv = 19, writev = 20, mremap = 25,
    madvise = 28, recvfrom = 45, recvmsg = 47, clone = 56, fork = 57, vfork = 58, execve = 59, exit = 60, wait4 = 61, futex = 202,
    exit_group = 231, waitid = 247, preadv = 295, execveat = 322, preadv2 = 327, clone3 = 435,
};
}
// clang-format on

// For which pages the program has asked for large pages. Any thread may ask.
class LargePageAdvice {
  public:
    void assign(std::uint64_t page, std::uint64_t count, bool large) {
        const std::lock_guard lock(mutex_);
        pages_.assign(page, page + count, large);
    }
    [[nodiscard]] bool at(std::uint64_t page) const {
        const std::lock_guard lock(mutex_);
        return pages_.at(page);
    }
    // Calls visit(begin, end) for the pages, in their order.
    template <class Visit>
    void for_each(Visit&& visit) const {
        const std::lock_guard lock(mutex_);
        pages_.for_each(0, ~std::uint64_t{0},
                        [&](std::uint64_t begin, std::uint64_t end, bool) { visit(begin, end); });
    }
    // Around a fork (Tracer::hold_locks()).
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    mutable std::mutex mutex_;
    Intervals<bool> pages_;
};

// The state that lasts from call to call.
struct AddressSpace {
    std::uint64_t guest_base;         // guest memory begins at this host address
    std::uint64_t program_break = 0;  // the kernel's; 0: not known yet
    std::uint64_t lowest_break = 0;   // the first one known; the kernel allows none below
    PageCacheNumbers page_cache{};
    LargePageAdvice advice{};
};

// What munmap or brk gives back for certain, to be told before the call is made: as soon as it has
// given them back, another thread can get these pages. A break that falls is noted in `space`.
std::optional<Event> unmapped_by(const SystemCall& call, AddressSpace& space);

// Calls `emit` for each other event, in their order.
void page_events(const SystemCall& call, std::int64_t result, AddressSpace& space,
                 const std::function<void(const Event&)>& emit);

// Does the same for the files that memory shows already.
void present_files(AddressSpace& space, const std::vector<FileMapping>& mappings,
                   const std::function<void(const Event&)>& emit);

}  // namespace pagelens
