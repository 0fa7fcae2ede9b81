// The callbacks of accesses: what each costs is the tracer's speed (core/accesses/strip.hpp).
#pragma once

#include <cstdint>

#include "core/address/units.hpp"
#include "tracer/decode.hpp"
#include "tracer/meminfo.hpp"
#include "tracer/stage.hpp"

namespace pagelens {

inline void* pack(AccessPlace place) { return as_data(place.word()); }
inline AccessPlace unpack(void* data) { return AccessPlace(as_number(data)); }

// An access of `most` bytes at most, for which time has advanced.
template <bool store>
[[gnu::always_inline]] inline void access(Vcpu& vcpu, std::uint64_t address, unsigned most,
                                          qemu_plugin_meminfo_t info, AccessPlace place) {
    if (vcpu.strip.hides(address, store, line_bytes - most, place.later())) [[likely]]
        return;
    tracer->pass<store>(vcpu, address, info, place);
}

// An access that the block was not certain to make. No access is larger than 8 bytes: larger ones
// come in pieces.
[[gnu::always_inline]] inline void uncertain_access(Vcpu& vcpu, std::uint64_t address,
                                                    qemu_plugin_meminfo_t info,
                                                    AccessPlace place = {}) {
    vcpu.strip.advance(1);
    if (vcpu.strip.hides(address, is_store(info), line_bytes - 8, place.later())) [[likely]]
        return;
    is_store(info) ? tracer->pass<true>(vcpu, address, info, place)
                   : tracer->pass<false>(vcpu, address, info, place);
}

// The data of all callbacks of accesses is a packed AccessPlace, if nothing else is said.

// The callback of an access that the block is certain to make. The first one also `counts` the
// block.
qemu_plugin_vcpu_mem_cb_t certain_access_callback(const Instruction& instruction, bool counts);

// Returns the callback of an instruction of which QEMU reads more than it asks for. It records what
// the instruction asks for, and not the next 8 bytes that QEMU reads. `counted`: the block's first
// certain access has counted it.
qemu_plugin_vcpu_mem_cb_t half_read_callback(const Instruction& instruction, bool counted);

// The callback of all others.
void on_uncertain_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                         void* data);
void on_stream_store(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data);

// A repeated string instruction: where an element begins, and an access of it. `data` where it
// begins: the address of the instruction. `alone`: its block holds nothing else and has not counted
// it.
void on_string(unsigned index, void* data);
void on_string_alone(unsigned index, void* data);
void on_string_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                      void* data);

// A block that makes no certain access.
void on_block(unsigned index, void* data);

}  // namespace pagelens
