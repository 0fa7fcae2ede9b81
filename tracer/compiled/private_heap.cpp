// The tracer's own memory. The program's allocator may be interrupted by a signal whose handler
// comes to the tracer, and then holds its lock. Its blocks also stay where they would be without a
// tracer. This library alone sees these functions.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>

#include "tracer/compiled/own.hpp"

namespace {

// Blocks of a power of two bytes, in lists of free ones. Larger blocks are mappings of their own.
constexpr unsigned least_shift = 6, most_shift = 18;
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;  // asked of the kernel at once

struct Header {
    std::size_t bytes;  // of the whole block
    Header* next;       // while it is free
};
static_assert(sizeof(Header) == __STDCPP_DEFAULT_NEW_ALIGNMENT__);

std::atomic_flag busy;  // of what follows; whoever holds it is inside the tracer
Header* free_blocks[most_shift + 1];
std::byte* fresh = nullptr;
std::byte* fresh_end = nullptr;

// Not by the function mmap, which tells the tracer of the program's mappings.
void* map(std::size_t bytes) {
    const long got = ::syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == -1) throw std::bad_alloc();
    return reinterpret_cast<void*>(got);
}

Header* take(unsigned shift) {
    while (busy.test_and_set(std::memory_order_acquire)) ::usleep(10);
    Header* block = free_blocks[shift];
    if (block != nullptr) {
        free_blocks[shift] = block->next;
    } else {
        const std::size_t bytes = std::size_t{1} << shift;
        if (static_cast<std::size_t>(fresh_end - fresh) < bytes) {
            fresh = static_cast<std::byte*>(map(chunk_bytes));
            fresh_end = fresh + chunk_bytes;
        }
        block = new (fresh) Header{bytes, nullptr};
        fresh += bytes;
    }
    busy.clear(std::memory_order_release);
    return block;
}

}  // namespace

namespace pagelens {

// In a forked child another thread may have been at work here. What it left is not used again.
void forget_private_heap() {
    std::fill(std::begin(free_blocks), std::end(free_blocks), nullptr);
    fresh = fresh_end = nullptr;
    busy.clear();
}

}  // namespace pagelens

void* operator new(std::size_t bytes) {
    const std::size_t whole = bytes + sizeof(Header);
    const unsigned shift = std::max(least_shift, static_cast<unsigned>(std::bit_width(whole - 1)));
    return (shift <= most_shift ? take(shift) : new (map(whole)) Header{whole, nullptr}) + 1;
}
void operator delete(void* given) noexcept {
    if (given == nullptr) return;
    Header* const block = static_cast<Header*>(given) - 1;
    if (block->bytes > std::size_t{1} << most_shift) {
        ::syscall(SYS_munmap, block, block->bytes);
        return;
    }
    while (busy.test_and_set(std::memory_order_acquire)) ::usleep(10);
    Header*& first = free_blocks[std::countr_zero(block->bytes)];
    block->next = first;
    first = block;
    busy.clear(std::memory_order_release);
}
void operator delete(void* given, std::size_t) noexcept { operator delete(given); }
