#include "core/machine/huge_array.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pagelens {
namespace {

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + HugeBlock::page - 1) / HugeBlock::page * HugeBlock::page;
}

// The blocks that a thread keeps between two replays, at most those of one replay. Destructors give
// blocks back, so nothing here allocates.
class KeptBlocks {
  public:
    KeptBlocks() = default;
    KeptBlocks(const KeptBlocks&) = delete;
    KeptBlocks& operator=(const KeptBlocks&) = delete;
    ~KeptBlocks() { release(); }

    // A block of exactly so many bytes; memory is null if there is none.
    HugeBlock take(std::size_t bytes, bool huge) {
        const auto at = std::find_if(
            blocks_.begin(), blocks_.begin() + count_,
            [&](const HugeBlock& block) { return block.bytes == bytes && block.huge == huge; });
        return at == blocks_.begin() + count_ ? HugeBlock{nullptr, 0, false} : remove(at);
    }
    void add(HugeBlock block) {
        if (count_ == most) unmap(remove(blocks_.begin()));  // the oldest goes
        blocks_[count_++] = block;
    }
    void release() {
        while (count_ > 0) unmap(blocks_[--count_]);
    }

  private:
    static constexpr std::size_t most = 32;  // a replay has some twenty
    using Blocks = std::array<HugeBlock, most>;

    static void unmap(const HugeBlock& block) { munmap(block.memory, block.bytes); }
    HugeBlock remove(Blocks::iterator at) {
        const HugeBlock block = *at;
        std::move(at + 1, blocks_.begin() + count_, at);
        --count_;
        return block;
    }

    Blocks blocks_{};
    std::size_t count_ = 0;
};

KeptBlocks& kept() {
    thread_local KeptBlocks blocks;
    return blocks;
}

HugeBlock map_fresh(std::size_t bytes, bool huge) {
    const std::size_t mapped = bytes + HugeBlock::page;
    const auto map = [mapped] {
        return mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    void* base = map();
    if (base == MAP_FAILED) {  // what is kept for later is wanted now
        kept().release();
        base = map();
    }
    if (base == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::uint8_t*>(base);
    const std::size_t before =
        HugeBlock::page - reinterpret_cast<std::uintptr_t>(begin) % HugeBlock::page;
    munmap(begin, before);
    if (before != HugeBlock::page) munmap(begin + before + bytes, HugeBlock::page - before);
    // This is advice: nothing is lost if it is refused.
    madvise(begin + before, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return {begin + before, bytes, true, huge};
}

// Zeroes the small pages of a huge one that are in memory or in swap, as far as `pages`, which is
// /proc/self/pagemap, can say (Linux, Documentation/admin-guide/mm/pagemap.rst); else all of them.
void zero_touched(int pages, std::uint8_t* huge_page) {
    constexpr std::size_t small_page = 4096;
    constexpr std::uint64_t present_or_swapped = std::uint64_t{3} << 62;
    std::array<std::uint64_t, HugeBlock::page / small_page> words{};
    const auto first = reinterpret_cast<std::uintptr_t>(huge_page) / small_page;
    const ssize_t got =
        pread(pages, words.data(), sizeof words, static_cast<off_t>(first * sizeof words[0]));
    const bool known = got == static_cast<ssize_t>(sizeof words);
    for (std::size_t begin = 0; begin < words.size();) {
        std::size_t end = begin;
        while (end < words.size() && (!known || (words[end] & present_or_swapped) != 0)) ++end;
        if (end > begin) std::memset(huge_page + begin * small_page, 0, (end - begin) * small_page);
        begin = end + 1;
    }
}

}  // namespace

HugeBlock HugeBlock::take(std::size_t bytes, bool huge) {
    const std::size_t whole = whole_pages(bytes == 0 ? 1 : bytes);
    const HugeBlock found = kept().take(whole, huge);
    return found.memory != nullptr ? found : map_fresh(whole, huge);
}

void HugeBlock::clear() const {
    // mincore() would call pages in swap untouched.
    const int pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    auto* const begin = static_cast<std::uint8_t*>(memory);
    for (std::size_t from = 0; from < bytes; from += page) zero_touched(pages, begin + from);
    if (pages >= 0) close(pages);
}

void HugeBlock::give_back(HugeBlock block) {
    block.bytes = whole_pages(block.bytes);
    block.fresh = false;
    kept().add(block);
}

}  // namespace pagelens
