// The memory of a virtual machine's host: where the host has the guest's frames, and the entries of
// its tables, which walks read besides those of the guest's own.
//
// A walk of the guest's tables has the guest's addresses, and each of them needs an entry of the
// host's tables (Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 3C, 28.3; AMD64
// Architecture Programmer's Manual, vol. 2, 15.25). Those of upper levels are few, and processors
// cache them. So only entries of the lowest level count. They lie side by side in the order of the
// guest's frames, behind all other frames.
//
// Nobody in the guest knows which frames the host gave. They are taken to be a permutation without
// any order, of pieces as large as the host's pages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "core/address/units.hpp"
#include "core/machine/page_tables.hpp"

namespace pagelens {

class HostMemory {
  public:
    // The host maps the guest's `frames` by pages of that size; without one, there is no host.
    HostMemory(std::optional<PageSize> page, std::uint32_t frames)
        : page_(page),
          guest_frames_(frames),
          shift_(page ? page_shift(*page) - page_bits : 0),
          whole_(frames >> shift_),
          bits_(std::max(2u, static_cast<unsigned>(std::bit_width(whole_)))) {}

    explicit operator bool() const { return page_.has_value(); }
    // Returns how many frames the entries take.
    [[nodiscard]] std::uint32_t table_frames() const {
        return page_ ? static_cast<std::uint32_t>(entry(guest_frames_) / page_bytes) -
                           guest_frames_ + 1
                     : 0;
    }
    // Returns the physical byte address of the entry for a frame of the guest. Precondition: there
    // is a host.
    [[nodiscard]] std::uint64_t entry(std::uint64_t frame) const {
        return std::uint64_t{guest_frames_} * page_bytes + entry_bytes * (frame >> shift_);
    }
    // Returns where a frame of the guest lies: where it says, without a host. A piece at the end of
    // memory that is no whole page stays where it is.
    [[nodiscard]] std::uint32_t frame(std::uint32_t of_guest) const {
        const std::uint32_t piece = of_guest >> shift_;
        if (!page_ || piece >= whole_) return of_guest;
        std::uint32_t place = piece;
        do place = mixed(place);
        while (place >= whole_);
        return (place << shift_) | (of_guest & ((1u << shift_) - 1));
    }
    // Returns the size of the piece of a guest's page whose translation a TLB holds. It leads into
    // the host's memory, so it is no larger than the host's pages.
    [[nodiscard]] PageSize held(PageSize size) const {
        return std::min(size, page_.value_or(size));
    }

  private:
    static constexpr std::uint64_t entry_bytes = 8;

    // A permutation of the numbers of so many bits: products with odd numbers, and shifted xors.
    [[nodiscard]] std::uint32_t mixed(std::uint32_t number) const {
        const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << bits_) - 1);
        for (const std::uint32_t odd : {0x9e3779b1u, 0x85ebca6bu, 0xc2b2ae35u}) {
            number = number * odd & mask;
            number ^= number >> (bits_ + 1) / 2;
        }
        return number;
    }

    std::optional<PageSize> page_;
    std::uint32_t guest_frames_;
    unsigned shift_;       // of a frame's number: to that of the host's page
    std::uint32_t whole_;  // pages of the host
    unsigned bits_;
};

}  // namespace pagelens
