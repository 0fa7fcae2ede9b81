// Large arrays in huge pages where the host gives them: the simulated caches' state and what is
// kept of a job's pages is up to 256 MiB and is hit at random, so the host's TLB decides the speed.
// A job that is small beside the node touches few places of them, far apart. These arrays are in
// small pages: to clear a huge page for each place takes longer than all else.
//
// A thread keeps the blocks that it gave back for its next replay: to hand out fresh pages and to
// clear them takes the kernel as long as a short replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace pagelens {

struct HugeBlock {
    static constexpr std::size_t page = std::size_t{2} << 20;

    void* memory;
    std::size_t bytes;  // whole pages
    bool fresh;         // all zero
    bool huge = true;   // its pages, where the host gives them

    // Returns at least `bytes` bytes, aligned to a huge page. Throws std::bad_alloc.
    static HugeBlock take(std::size_t bytes, bool huge = true);
    // Keeps the block for this thread's next take() of about that size.
    static void give_back(HugeBlock block);
    // Zeroes the block. Pages that nobody has touched stay with the kernel: a job that is small
    // beside the simulated cache touches few.
    void clear() const;
};

// A zeroed byte array.
class HugeArray {
  public:
    static constexpr std::size_t any = ~std::size_t{0};

    // About `touched` places of it are going to be used, or any number.
    explicit HugeArray(std::size_t bytes, std::size_t touched = any)
        : bytes_(bytes), block_(HugeBlock::take(bytes, touched >= bytes / sparse)) {
        if (!block_.fresh) block_.clear();
    }
    ~HugeArray() {
        if (block_.memory != nullptr) HugeBlock::give_back(block_);
    }
    HugeArray(HugeArray&& other) noexcept
        : bytes_(other.bytes_),
          block_{std::exchange(other.block_.memory, nullptr), other.block_.bytes, false,
                 other.block_.huge} {}
    HugeArray(const HugeArray&) = delete;
    HugeArray& operator=(const HugeArray&) = delete;
    HugeArray& operator=(HugeArray&&) = delete;

    [[nodiscard]] std::uint8_t* data() { return static_cast<std::uint8_t*>(block_.memory); }
    [[nodiscard]] const std::uint8_t* data() const {
        return static_cast<const std::uint8_t*>(block_.memory);
    }
    [[nodiscard]] std::size_t size() const { return bytes_; }

  private:
    static constexpr std::size_t sparse = 8 * 4096;  // at most one small page in eight is touched

    std::size_t bytes_;
    HugeBlock block_;
};

// An array of values that are zero in all bytes at first. What nobody touches takes no memory and
// no time, whereas a vector writes all of its elements.
template <class T>
class ZeroedArray {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    // About `touched` of its n elements are going to be used, or any number.
    explicit ZeroedArray(std::size_t n, std::size_t touched = HugeArray::any)
        : bytes_(n * sizeof(T), touched) {}

    [[nodiscard]] T& operator[](std::size_t i) { return reinterpret_cast<T*>(bytes_.data())[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const {
        return reinterpret_cast<const T*>(bytes_.data())[i];
    }

  private:
    HugeArray bytes_;
};

// Gives vectors such memory; what is small shares its pages with others.
template <class T>
struct HugeAllocator {
    using value_type = T;
    HugeAllocator() = default;
    template <class U>
    HugeAllocator(const HugeAllocator<U>& /*other*/) {}

    T* allocate(std::size_t n) {
        if (n > (~std::size_t{0} - HugeBlock::page) / sizeof(T)) throw std::bad_array_new_length();
        if (n * sizeof(T) < HugeBlock::page) return static_cast<T*>(::operator new(n * sizeof(T)));
        return static_cast<T*>(HugeBlock::take(n * sizeof(T)).memory);
    }
    void deallocate(T* memory, std::size_t n) {
        if (n * sizeof(T) < HugeBlock::page) {
            ::operator delete(memory);
        } else {
            HugeBlock::give_back({memory, n * sizeof(T), false});
        }
    }
    friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace pagelens
