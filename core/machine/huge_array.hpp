// A zeroed byte array in huge pages where the host gives them: the simulated caches' state is up to
// 256 MiB and is hit at random, so the host's TLB decides the speed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pagelens {

class HugeArray {
  public:
    explicit HugeArray(std::size_t bytes) : bytes_(bytes), mapped_(bytes + alignment) {
        base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED) throw std::bad_alloc();
        const auto address = reinterpret_cast<std::uintptr_t>(base_);
        data_ = reinterpret_cast<std::uint8_t*>((address + alignment - 1) / alignment * alignment);
        madvise(data_, bytes, MADV_HUGEPAGE);  // advice: nothing is lost if it is refused
    }
    ~HugeArray() {
        if (base_ != nullptr) munmap(base_, mapped_);
    }
    HugeArray(HugeArray&& other) noexcept
        : bytes_(other.bytes_),
          mapped_(other.mapped_),
          base_(std::exchange(other.base_, nullptr)),
          data_(other.data_) {}
    HugeArray(const HugeArray&) = delete;
    HugeArray& operator=(const HugeArray&) = delete;
    HugeArray& operator=(HugeArray&&) = delete;

    [[nodiscard]] std::uint8_t* data() { return data_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

  private:
    static constexpr std::size_t alignment = std::size_t{2} << 20;
    std::size_t bytes_, mapped_;
    void* base_;
    std::uint8_t* data_;
};

}  // namespace pagelens
