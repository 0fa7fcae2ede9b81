// What a system call did to the program's pages, from its number, arguments and result.
#pragma once

#include <cstdint>
#include <functional>

#include "core/accesses/event.hpp"

namespace pagelens {

struct SystemCall {
    std::int64_t number = -1;
    std::uint64_t argument[6] = {};
};

// x86-64 Linux (arch/x86/entry/syscalls/syscall_64.tbl).
// clang-format off
namespace nr {
enum : std::int64_t {
    read = 0, mmap = 9, munmap = 11, brk = 12, pread64 = 17, readv = 19, mremap = 25, madvise = 28,
    recvfrom = 45, recvmsg = 47, clone = 56, fork = 57, vfork = 58, execve = 59, exit = 60, futex = 202,
    exit_group = 231, preadv = 295, execveat = 322, preadv2 = 327, clone3 = 435,
};
}
// clang-format on

// Calls `emit` for each event, in their order. `program_break` is the kernel's, kept from call to
// call (0: not known yet); guest memory begins at host address `guest_base`.
void page_events(const SystemCall& call, std::int64_t result, std::uint64_t& program_break,
                 std::uint64_t guest_base, const std::function<void(const Event&)>& emit);

}  // namespace pagelens
