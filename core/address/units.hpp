// Strong types for addresses and frame numbers.
//
// Most address bugs are a virtual number used where a physical one was meant, or a page number
// used as a line number; as distinct types these are compile errors. Raw bits need `raw()`.
#pragma once

#include <compare>
#include <cstdint>

namespace pagelens {

inline constexpr unsigned line_bits = 6;        // 64-byte lines on every machine modelled
inline constexpr unsigned page_bits = 12;       // the unit of placement: 4 KiB frames
inline constexpr unsigned lines_per_page = 64;  // so one 64-bit mask states the lines of a page
inline constexpr std::uint64_t line_bytes = 1u << line_bits;
inline constexpr std::uint64_t page_bytes = 1u << page_bits;

template <class Tag, class Bits>
class Strong {
  public:
    constexpr Strong() = default;
    constexpr explicit Strong(Bits bits) : bits_(bits) {}
    [[nodiscard]] constexpr Bits raw() const { return bits_; }
    friend constexpr auto operator<=>(Strong, Strong) = default;

  private:
    Bits bits_ = 0;
};

using VirtualAddress = Strong<struct VirtualAddressTag, std::uint64_t>;
using VirtualLine = Strong<struct VirtualLineTag, std::uint64_t>;  // address / 64
using VirtualPage = Strong<struct VirtualPageTag, std::uint64_t>;  // address / 4096
using Frame = Strong<struct FrameTag, std::uint32_t>;              // physical address / 4096 (PFN)

constexpr VirtualLine line_of(VirtualAddress a) { return VirtualLine(a.raw() >> line_bits); }
constexpr VirtualPage page_of(VirtualAddress a) { return VirtualPage(a.raw() >> page_bits); }
constexpr VirtualPage page_of(VirtualLine l) {
    return VirtualPage(l.raw() >> (page_bits - line_bits));
}
constexpr unsigned line_in_page(VirtualLine l) { return l.raw() & (lines_per_page - 1); }

}  // namespace pagelens
