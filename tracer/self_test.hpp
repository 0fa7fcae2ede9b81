// What the tracer takes for granted of QEMU and no version number promises, tried at the program's
// first call: that a memory callback comes at all, what its info says, and where guest memory is.
//
// A call pushes its return address, 8 bytes that are known when it is translated: so every program,
// static ones too, tests the tracer with its first call, and none pays for it afterwards.
#pragma once

#include <cstdint>
#include <span>

#include "tracer/guest_memory.hpp"
#include "tracer/qemu_plugin_api.h"

namespace pagelens {

class SelfTest {
  public:
    explicit SelfTest(std::uint64_t guest_base) : guest_base_(guest_base) {}

    // Calls need not be handed over any more.
    [[nodiscard]] bool passed() const { return passed_; }

    // A call is about to run. Returns what is wrong with this QEMU, or null, as `accessed` does.
    const char* call_begins() {
        if (called_ && !passed_) return "a call's store of its return address was not reported";
        called_ = true;
        return nullptr;
    }

    // The call that returns to `return_address` accessed `address`.
    const char* accessed(qemu_plugin_meminfo_t info, std::uint64_t address,
                         std::uint64_t return_address) {
        const bool load = (info >> 16 & 1) != 0, store = (info >> 17 & 1) != 0;
        if (!load && !store) return "an access was reported as neither a load nor a store";
        if (load) return nullptr;  // a call through memory loads its target first
        if ((info >> 4 & 7) != 3) return "a store of 8 bytes was reported with another size";
        std::uint64_t stored = 0;
        const auto bytes = std::as_writable_bytes(std::span(&stored, 1));
        if (read_guest(guest_base_, address, bytes) != bytes.size() || stored != return_address) {
            return "a call's return address is not where its store was reported";
        }
        passed_ = true;
        return nullptr;
    }

  private:
    const std::uint64_t guest_base_;
    bool called_ = false, passed_ = false;
};

}  // namespace pagelens
