#include "core/machine/huge_array.hpp"

#include <sys/mman.h>

namespace pagelens {
namespace {

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + HugeBlock::page - 1) / HugeBlock::page * HugeBlock::page;
}

// What a thread holds between two replays: at most the blocks of one.
class KeptBlocks {
  public:
    static constexpr std::size_t most = 16;

    KeptBlocks() = default;
    KeptBlocks(const KeptBlocks&) = delete;
    KeptBlocks& operator=(const KeptBlocks&) = delete;
    ~KeptBlocks() {
        for (const HugeBlock& block : blocks_) munmap(block.memory, block.bytes);
    }

    // A block of exactly so many bytes; memory is null if there is none.
    HugeBlock take(std::size_t bytes) {
        for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
            if (at->bytes != bytes) continue;
            const HugeBlock found = *at;
            blocks_.erase(at);
            return found;
        }
        return {nullptr, 0, false};
    }
    void add(HugeBlock block) {
        if (blocks_.size() == most) {  // the oldest goes
            munmap(blocks_.front().memory, blocks_.front().bytes);
            blocks_.erase(blocks_.begin());
        }
        blocks_.push_back(block);
    }

  private:
    std::vector<HugeBlock> blocks_;
};

KeptBlocks& kept() {
    thread_local KeptBlocks blocks;
    return blocks;
}

HugeBlock map_fresh(std::size_t bytes) {
    const std::size_t mapped = bytes + HugeBlock::page;
    void* const base =
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::uint8_t*>(base);
    const std::size_t before =
        HugeBlock::page - reinterpret_cast<std::uintptr_t>(begin) % HugeBlock::page;
    munmap(begin, before);
    if (before != HugeBlock::page) munmap(begin + before + bytes, HugeBlock::page - before);
    madvise(begin + before, bytes, MADV_HUGEPAGE);  // advice: nothing is lost if it is refused
    return {begin + before, bytes, true};
}

}  // namespace

HugeBlock HugeBlock::take(std::size_t bytes) {
    const std::size_t whole = whole_pages(bytes == 0 ? 1 : bytes);
    const HugeBlock found = kept().take(whole);
    return found.memory != nullptr ? found : map_fresh(whole);
}

void HugeBlock::give_back(HugeBlock block) {
    block.bytes = whole_pages(block.bytes);
    block.fresh = false;
    kept().add(block);
}

}  // namespace pagelens
