// Maps a physical address to the channel, rank, bank group, bank and row of a DRAM.
//
// Every bit of these numbers is the parity of some address bits (core/address/address_hash.hpp), so
// bank swizzle and interleaving by exclusive or are masks like others. A map must be one to one.
// Linear algebra checks this, and the error names the bit that adds nothing. If the number of
// channels is no power of two (three on a controller of Skylake), a division comes first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/address/address_hash.hpp"

namespace pagelens {

// Masks of physical address bits, the least significant bit of each number first. Where there is an
// interleave they are of the address that it leaves.
struct DramFields {
    unsigned offset_bits = 3;  // log2 of the bytes of a column: what lies below the masks
    Masks column, bank, bank_group, rank, channel, row;
    // Blocks of 2^interleave_bit bytes go round `interleave` groups of channels; a group sees
    // address / interleave in these blocks. 1: none.
    std::uint32_t interleave = 1;
    unsigned interleave_bit = 6;
};

// The place of a line.
struct DramPlace {
    std::uint32_t bank;  // of all banks; neighbours differ in bank, then group, rank, channel
    std::uint32_t row;
};

class DramMap {
  public:
    // Throws std::invalid_argument, beginning with the field, if two addresses would share a place
    // or a place has no address, or if there are more than 16 bits of banks, or 31 of banks and
    // rows.
    explicit DramMap(const DramFields& fields);

    // Precondition: address < bytes().
    [[nodiscard]] DramPlace operator()(std::uint64_t address) const {
        std::uint32_t group = 0;
        if (interleave_ != 1) {
            const std::uint64_t block = address >> interleave_bit_;
            group = static_cast<std::uint32_t>(block % interleave_);
            const std::uint64_t inside = address & ((std::uint64_t{1} << interleave_bit_) - 1);
            address = block / interleave_ << interleave_bit_ | inside;
        }
        const std::uint32_t value = hash_(address);
        const std::uint32_t bank = value & ((std::uint32_t{1} << bank_bits_) - 1);
        return {bank | group << bank_bits_, value >> bank_bits_};
    }

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint32_t banks() const { return interleave_ << bank_bits_; }
    // The number of lowest bits of DramPlace::bank that tell the banks of a group, a rank, or a
    // channel.
    [[nodiscard]] unsigned group_shift() const { return group_shift_; }
    [[nodiscard]] unsigned rank_shift() const { return rank_shift_; }
    [[nodiscard]] unsigned channel_shift() const { return channel_shift_; }
    [[nodiscard]] std::uint32_t channels() const { return banks() >> channel_shift_; }

  private:
    unsigned group_shift_, rank_shift_, channel_shift_, bank_bits_;
    std::uint32_t interleave_;
    unsigned interleave_bit_;
    std::uint64_t bytes_;
    AddressHash hash_;
};

}  // namespace pagelens
