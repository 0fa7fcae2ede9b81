#include "core/frames/placement.hpp"

namespace pagelens {

std::vector<Frame> first_frames(const Placement& placement, std::uint32_t ranks,
                                std::uint32_t pages_per_rank) {
    const auto source = placement.open({ranks, pages_per_rank, 0});
    std::vector<Frame> frames;
    frames.reserve(std::size_t{ranks} * pages_per_rank);
    for (std::uint32_t page = 0; page < pages_per_rank; page += 1u << placement.base_order()) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const auto frame = source->alloc({.cpu = rank, .page = page, .rank = rank});
            if (!frame) return frames;
            for (std::uint32_t i = 0; i < 1u << placement.base_order(); ++i)
                frames.emplace_back(frame->raw() + i);
        }
    }
    return frames;
}

}  // namespace pagelens
