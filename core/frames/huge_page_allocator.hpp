// Large arrays that are read at random: aligned to 2 MiB and advised to be backed by huge pages,
// which spares most of the TLB misses. (Where the host refuses the advice, nothing is lost.)
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace pagelens {

template <class T>
struct HugePageAllocator {
    using value_type = T;
    static constexpr std::size_t huge_page = std::size_t{2} << 20;

    HugePageAllocator() = default;
    template <class U>
    explicit HugePageAllocator(const HugePageAllocator<U>&) {}

    T* allocate(std::size_t count) {
        const std::size_t bytes = (count * sizeof(T) + huge_page - 1) / huge_page * huge_page;
        void* const memory =
            bytes < 2 * huge_page ? std::malloc(bytes) : std::aligned_alloc(huge_page, bytes);
        if (memory == nullptr) throw std::bad_alloc();
        if (bytes >= 2 * huge_page) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, std::size_t) { std::free(memory); }
    friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

}  // namespace pagelens
