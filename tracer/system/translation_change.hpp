// Whether an instruction may change which frame a virtual address has: x86-64's ways to change or
// drop translations (Intel SDM vol. 3, 4.10.4 "Invalidation of TLBs and Paging-Structure Caches").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

// mov to CR0, CR3, CR4; invlpg; invpcid. (VM entries and task switches are not in a Linux guest.)
inline bool changes_translation(std::span<const std::uint8_t> bytes) {
    std::size_t i = 0;
    while (i < bytes.size() && (bytes[i] == 0x66 || bytes[i] == 0xf2 || bytes[i] == 0xf3)) ++i;
    if (i < bytes.size() && (bytes[i] & 0xf0) == 0x40) ++i;  // REX
    if (bytes.size() < i + 3 || bytes[i] != 0x0f) return false;
    const unsigned mod = bytes[i + 2] >> 6, reg = bytes[i + 2] >> 3 & 7;
    switch (bytes[i + 1]) {
        case 0x22:
            return reg == 0 || reg == 3 || reg == 4;
        case 0x01:
            return mod != 3 && reg == 7;
        case 0x38:
            return bytes[i + 2] == 0x82;
        default:
            return false;
    }
}

}  // namespace pagelens
