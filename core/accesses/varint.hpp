// LEB128 varints and zigzag, as the trace file uses them; reading never leaves its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

inline constexpr std::size_t varint_limit = 10;  // bytes of the longest 64-bit varint

constexpr std::uint64_t zigzag(std::uint64_t difference) {
    return (difference << 1) ^ (std::uint64_t{0} - (difference >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t code) {
    return (code >> 1) ^ (std::uint64_t{0} - (code & 1));
}

// Writes at `out`, which has room for varint_limit bytes; returns the end.
inline std::uint8_t* write_varint(std::uint8_t* out, std::uint64_t value) {
    while (value >= 0x80) {
        *out++ = static_cast<std::uint8_t>(value | 0x80);
        value >>= 7;
    }
    *out++ = static_cast<std::uint8_t>(value);
    return out;
}

// A cursor over bytes from elsewhere. A read past the end or a varint of more than 64 bits returns
// 0 and leaves `ok()` false for good.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::uint8_t> bytes)
        : begin_(bytes.data()), at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] bool at_end() const { return at_ == end_; }
    [[nodiscard]] std::size_t position() const { return static_cast<std::size_t>(at_ - begin_); }

    [[nodiscard]] bool next_is_within(unsigned first, unsigned count) const {
        return at_ != end_ && unsigned{*at_} - first < count;
    }

    [[nodiscard]] std::span<const std::uint8_t> rest() const { return {at_, end_}; }
    // Precondition: so many are left.
    void skip(std::size_t count) { at_ += count; }

    std::uint8_t byte() {
        if (at_ == end_) {
            ok_ = false;
            return 0;
        }
        return *at_++;
    }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const std::uint64_t part = byte();
            if (shift == 63 && part > 1) break;
            value |= (part & 0x7f) << shift;
            if (part < 0x80) return ok_ ? value : 0;
        }
        ok_ = false;
        return 0;
    }

    std::uint64_t signed_varint() { return unzigzag(varint()); }  // two's complement

    std::span<const std::uint8_t> bytes(std::uint64_t count) {
        if (count > static_cast<std::uint64_t>(end_ - at_)) {
            ok_ = false;
            return {};
        }
        const std::span<const std::uint8_t> result(at_, static_cast<std::size_t>(count));
        at_ += count;
        return result;
    }

  private:
    const std::uint8_t* begin_;
    const std::uint8_t* at_;
    const std::uint8_t* end_;
    bool ok_ = true;
};

}  // namespace pagelens
