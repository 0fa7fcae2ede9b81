// CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight bytes a step (Kounavis and Berry, 2005:
// "A systematic approach to building high performance software-based CRC generators").
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace pagelens {

namespace detail {
using Crc32cTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Crc32cTables make_crc32c_tables() {
    Crc32cTables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
        tables[0][byte] = crc;
    }
    for (std::size_t t = 1; t < 8; ++t)
        for (std::size_t byte = 0; byte < 256; ++byte)
            tables[t][byte] = (tables[t - 1][byte] >> 8) ^ tables[0][tables[t - 1][byte] & 0xff];
    return tables;
}
inline constexpr Crc32cTables crc32c_tables = make_crc32c_tables();
}  // namespace detail

// Continues `crc` (0 to start) over `bytes`.
inline std::uint32_t crc32c(std::uint32_t crc, std::span<const std::uint8_t> bytes) {
    static_assert(std::endian::native == std::endian::little);
    const auto& tables = detail::crc32c_tables;
    const std::uint8_t* at = bytes.data();
    std::size_t left = bytes.size();
    crc = ~crc;
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        word ^= crc;
        crc = 0;
        for (unsigned i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xff];
    }
    for (; left > 0; --left, ++at) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}

}  // namespace pagelens
