// The guest-physical frame of the access that QEMU has just made.
//
// QEMU's plugin interface says where memory lies among QEMU's own memory blocks, which above the
// PCI hole and on every node but the first is not the guest's address. Which part of the blocks is
// which part of guest memory is learned once for each 2 MiB, by a walk of the guest's page tables:
// memory is laid out in larger parts than that.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/address/units.hpp"
#include "core/replay/live.hpp"
#include "tracer/qemu_plugin_api.h"

extern "C" {
// QEMU's own, beside the plugin interface: the page that a virtual address lies in; ~0 if none.
std::uint64_t cpu_get_phys_page_debug(void* cpu, std::uint64_t address);
extern __thread void* current_cpu;
}

namespace pagelens {

class GuestFrames {
  public:
    // The frame of `address`, from the callback of an access to it; no_frame for a device.
    std::uint32_t of(qemu_plugin_meminfo_t info, std::uint64_t address) {
        Known& known = known_[(address >> page_bits) % known_.size()];
        if (known.page != address >> page_bits)
            known = {address >> page_bits, look_up(info, address)};
        return known.frame;
    }

    // A translation may have changed.
    void forget() { known_.fill({}); }

  private:
    struct Known {
        std::uint64_t page = ~std::uint64_t{0};
        std::uint32_t frame = LiveCaches::no_frame;
    };

    std::uint32_t look_up(qemu_plugin_meminfo_t info, std::uint64_t address) {
        const qemu_plugin_hwaddr* where = qemu_plugin_get_hwaddr(info, address);
        if (where == nullptr || qemu_plugin_hwaddr_is_io(where)) return LiveCaches::no_frame;
        const std::uint64_t place = qemu_plugin_hwaddr_phys_addr(where) >> page_bits;
        const std::uint64_t part = place >> part_bits;
        if (part >= offsets_.size()) offsets_.resize(part + 1, unknown);
        if (offsets_[part] == unknown) {
            const std::uint64_t page = cpu_get_phys_page_debug(current_cpu, address);
            if (page == ~std::uint64_t{0}) return LiveCaches::no_frame;
            offsets_[part] =
                static_cast<std::int64_t>(page >> page_bits) - static_cast<std::int64_t>(place);
        }
        return static_cast<std::uint32_t>(static_cast<std::int64_t>(place) + offsets_[part]);
    }

    static constexpr unsigned part_bits = 9;  // 2 MiB of frames
    static constexpr std::int64_t unknown = INT64_MIN;
    std::array<Known, 256> known_;
    std::vector<std::int64_t> offsets_;  // of each 2 MiB of QEMU's blocks: frame - place there
};

}  // namespace pagelens
