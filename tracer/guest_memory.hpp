// Memory of the traced program, read where it may not be readable.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

// Reads what is readable of `out.size()` bytes at guest address `address`, from the first on; guest
// memory begins at host address `guest_base`. Returns how many bytes that is.
inline std::size_t read_guest(std::uint64_t guest_base, std::uint64_t address,
                              std::span<std::byte> out) {
    const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0) return 0;
    const ::ssize_t count =
        ::pread(memory, out.data(), out.size(), static_cast<::off_t>(guest_base + address));
    ::close(memory);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
}

}  // namespace pagelens
