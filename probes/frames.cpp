#include "probes/frames.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace pagelens::probes {

std::vector<std::uint64_t> frames_of(std::uintptr_t address, std::size_t bytes) {
    // Documentation/admin-guide/mm/pagemap.rst: 8 bytes a page, bit 63 present, bits 0-54 frame.
    constexpr std::uint64_t present = std::uint64_t{1} << 63, frame = (std::uint64_t{1} << 55) - 1;
    constexpr std::size_t page_bytes = 4096;

    const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    std::vector<std::uint64_t> frames(bytes / page_bytes);
    auto* const into = reinterpret_cast<char*>(frames.data());
    const std::size_t wanted = frames.size() * sizeof(frames[0]);
    const std::size_t from = address / page_bytes * sizeof(frames[0]);
    std::size_t done = 0;
    for (ssize_t got = 1; done < wanted && got > 0; done += static_cast<std::size_t>(got)) {
        got = pread(file, into + done, wanted - done, static_cast<off_t>(from + done));
        if (got < 0) got = 0;
    }
    close(file);
    if (done < wanted) return {};
    for (std::uint64_t& entry : frames) entry = (entry & present) != 0 ? entry & frame : 0;
    const bool shown = std::any_of(frames.begin(), frames.end(), [](auto f) { return f != 0; });
    return shown ? frames : std::vector<std::uint64_t>{};
}

std::size_t transparent_bytes(std::uintptr_t address, std::size_t bytes) {
    std::ifstream file("/proc/self/smaps");
    std::size_t kib = 0;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        unsigned long first = 0, last = 0, value = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
            if (first >= address + bytes) break;
            inside = first >= address;
        } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &value) == 1) {
            kib += value;
        }
    }
    return kib * 1024;
}

}  // namespace pagelens::probes
