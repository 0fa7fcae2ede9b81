#include "probes/memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "probes/failure.hpp"
#include "probes/frames.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {

Memory::Memory(std::size_t bytes, Pages pages, std::span<const int> cpus, std::size_t parts)
    : pages_(pages) {
    if (parts == 0 || parts > bytes) {
        throw std::invalid_argument("parts: " + std::to_string(parts) + "; from 1 to bytes");
    }
    mapping_ = map_pages(bytes, pages);
    std::atomic<int> error{0};
    try {
        run_pinned(cpus, [&](const Member& member) {
            const std::size_t unit = unit_bytes(pages_), shares = parts * member.count;
            const auto bound = [&](std::size_t share) {
                return share == shares ? mapping_.bytes
                                       : mapping_.bytes / unit * share / shares * unit;
            };
            for (std::size_t part = 0; part < parts; ++part) {
                const std::size_t share = part * member.count + member.index;
                const std::size_t first = bound(share), last = bound(share + 1);
                const int failed = populate(mapping_.address + first, last - first, pages_);
                if (failed != 0) error = failed;
            }
        });
        if (error != 0) {
            throw Failure(error, "pages: only part of " + std::to_string(bytes) +
                                     " bytes could be had on these processors' NUMA nodes");
        }
    } catch (...) {
        release();
        throw;
    }
}

Memory::~Memory() { release(); }

void Memory::release() {
    const std::lock_guard lock(mutex_);
    if (!released_) munmap(mapping_.reserved, mapping_.reserved_bytes);
    released_ = true;
}

std::vector<std::uint64_t> Memory::frames() const {
    const Use use(*this);
    return frames_of(address(), bytes());
}

double Memory::large_share() const {
    const Use use(*this);
    if (from_pool(pages_)) return 1;
    return static_cast<double>(transparent_bytes(address(), bytes())) /
           static_cast<double>(bytes());
}

Memory::Use::Use(const Memory& memory) : memory_(memory), lock_(memory.mutex_) {
    if (memory.released_) throw std::invalid_argument("memory: it has been released");
}

std::byte* Memory::Use::checked(std::size_t offset, std::size_t count, std::size_t size,
                                const char* name) const {
    const std::size_t bytes = memory_.bytes();
    if (offset > bytes || count > (bytes - offset) / size) {
        throw std::invalid_argument(std::string(name) + ": " + std::to_string(count) + " x " +
                                    std::to_string(size) + " bytes at " + std::to_string(offset) +
                                    " do not lie in the memory's " + std::to_string(bytes));
    }
    if (offset % size != 0) {
        throw std::invalid_argument(std::string(name) + ": at " + std::to_string(offset) +
                                    "; a multiple of " + std::to_string(size) + " bytes");
    }
    return memory_.mapping_.address + offset;
}

}  // namespace pagelens::probes
