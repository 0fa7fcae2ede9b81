#include "probes/ballast.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/random/philox.hpp"
#include "probes/failure.hpp"

namespace pagelens::probes {
namespace {

constexpr std::uint32_t most_small_pages = 512;  // in a piece
constexpr std::size_t one_array[] = {0};

std::size_t bounded(std::size_t bytes, Pages pages) {
    if (!from_pool(pages)) return bytes;
    const std::size_t unit = unit_bytes(pages);
    return std::min(std::max(bytes, unit), free_in_pool(pages) * unit);
}

}  // namespace

Ballast::Ballast(std::size_t bytes, Pages pages, std::span<const int> cpus, double kept,
                 std::uint64_t seed) {
    if (!(kept >= 0 && kept < 1)) {
        throw std::invalid_argument("kept: " + std::to_string(kept) + "; from 0 to below 1");
    }
    const std::size_t wanted = bounded(bytes, pages);
    if (wanted == 0 && from_pool(pages)) return;
    memory_.emplace(wanted, pages, cpus, one_array);
    held_ = memory_->bytes();
    Random random(seed, 0, 0, Stream::ballast);
    const std::size_t unit = unit_bytes(pages);
    for (std::size_t at = 0; at < held_;) {
        const std::size_t units = pages == Pages::small ? random.below(most_small_pages) + 1 : 1;
        const std::size_t size = std::min(units * unit, held_ - at);
        pieces_.push_back({at, size});
        at += size;
    }
    for (std::size_t left = pieces_.size(); left > 1; --left) {  // Fisher and Yates
        std::swap(pieces_[left - 1], pieces_[random.below(static_cast<std::uint32_t>(left))]);
    }
    give_back(static_cast<std::size_t>(kept * static_cast<double>(pieces_.size())));
}

void Ballast::release() {
    give_back(0);
    if (memory_) memory_->release();
}

void Ballast::give_back(std::size_t left) {
    for (; pieces_.size() > left; pieces_.pop_back()) {
        const Piece piece = pieces_.back();
        auto* const address = reinterpret_cast<std::byte*>(memory_->address()) + piece.first;
        // Pages of a pool know no MADV_DONTNEED before 5.18; nothing mapped over them frees them.
        const bool gone =
            from_pool(memory_->pages())
                ? mmap(address, piece.bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED
                : madvise(address, piece.bytes, MADV_DONTNEED) == 0;
        if (!gone) break;  // too many mappings (vm.max_map_count): all go at the end
        held_ -= piece.bytes;
    }
}

}  // namespace pagelens::probes
