// The plugin's side of hooks/pagelens.h: recognises the doorbell instruction at translation and
// reads the record that it hands over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "hooks/pagelens.h"

namespace pagelens {

inline constexpr std::size_t max_region_name = 255;  // bytes

// Whether these bytes of one instruction are `movq %rax, PAGELENS_MAGIC(%rcx)`. Such an
// instruction gets a memory callback of its own instead of the ordinary one.
inline bool is_doorbell(const std::uint8_t* bytes, std::size_t n) {
    constexpr std::uint32_t magic = PAGELENS_MAGIC;
    constexpr std::uint8_t doorbell[] = {0x48,
                                         0x89,
                                         0x81,
                                         std::uint8_t(magic),
                                         std::uint8_t(magic >> 8),
                                         std::uint8_t(magic >> 16),
                                         std::uint8_t(magic >> 24)};
    return n == sizeof doorbell && std::memcmp(bytes, doorbell, sizeof doorbell) == 0;
}

// The record that a doorbell at guest address `vaddr` handed over; guest memory begins at host
// address `guest_base`. The guest has just stored to it, so it is mapped and readable.
inline pagelens_record read_record(std::uint64_t guest_base, std::uint64_t vaddr) {
    pagelens_record record;
    std::memcpy(&record, reinterpret_cast<const void*>(guest_base + vaddr), sizeof record);
    return record;
}

// The name that a region record points to.
inline std::string region_name(std::uint64_t guest_base, const pagelens_record& record) {
    const auto* name = reinterpret_cast<const char*>(guest_base + record.address);
    return std::string(name, std::min<std::uint64_t>(record.size, max_region_name));
}

// The meeting that a record points to. Its place has no name if the record is too short for one.
struct ToldMeeting {
    std::uint32_t turn = 0;
    bool comes = false, waits = false, sends = false;
    std::string place;
};
inline ToldMeeting told_meeting(std::uint64_t guest_base, const pagelens_record& record) {
    constexpr std::size_t before_name = offsetof(pagelens_meeting, place);
    pagelens_meeting told{};
    const auto bytes = std::min<std::uint64_t>(record.size, sizeof told);
    if (bytes <= before_name) return {};
    std::memcpy(&told, reinterpret_cast<const void*>(guest_base + record.address), bytes);
    return {told.turn, told.comes != 0, told.waits != 0, told.sends != 0,
            std::string(told.place, bytes - before_name)};
}

}  // namespace pagelens
