#include "probes/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>

#include "probes/failure.hpp"
#include "probes/frames.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

void check(std::span<const std::size_t> arrays, std::size_t bytes) {
    const bool ascending =
        std::adjacent_find(arrays.begin(), arrays.end(), std::greater_equal<>()) == arrays.end();
    if (arrays.empty() || arrays.front() != 0 || !ascending || arrays.back() >= bytes) {
        throw std::invalid_argument("arrays: they begin with 0, ascend and stay below bytes, " +
                                    std::to_string(bytes));
    }
}

}  // namespace

Memory::Memory(std::size_t bytes, Pages pages, std::span<const int> cpus,
               std::span<const std::size_t> arrays)
    : pages_(pages) {
    check(arrays, bytes);
    mapping_ = map_pages(bytes, pages);
    std::atomic<int> error{0};
    try {
        run_pinned(cpus, [&](const Member& member) {
            const std::size_t unit = unit_bytes(pages_), units = mapping_.bytes / unit;
            for (std::size_t j = 0; j < arrays.size(); ++j) {
                const std::size_t begin = arrays[j] / unit;
                const std::size_t end = j + 1 < arrays.size() ? arrays[j + 1] / unit : units;
                const auto [first, last] = member.part_of(end - begin, 1);
                const int failed = populate(mapping_.address + (begin + first) * unit,
                                            (last - first) * unit, pages_);
                if (failed != 0) error = failed;
            }
        });
        check_stop();
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
