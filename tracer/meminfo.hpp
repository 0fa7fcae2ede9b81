// The bits that QEMU hands to the callback of an access, as seen in QEMU 7.2 (self_test.hpp tests
// them): 4-6 the logarithm of its bytes, 16 it reads, 17 it writes; bits above are not in use.
#pragma once

#include <bit>

#include "tracer/qemu_plugin_api.h"

namespace pagelens {

inline unsigned size_of(qemu_plugin_meminfo_t info) { return 1u << (info >> 4 & 7); }
inline unsigned is_store(qemu_plugin_meminfo_t info) { return info >> 17; }
// For an atomic instruction the info says both. If such an instruction has no callback of its own
// (Stage::waiting), QEMU 7.2 may call that of the call or ret before it.
inline bool is_store_alone(qemu_plugin_meminfo_t info) { return (info >> 16 & 3) == 2; }
inline bool is_load_alone(qemu_plugin_meminfo_t info) { return (info >> 16 & 3) == 1; }

// Returns the info of a load of `size` bytes, a power of two.
constexpr qemu_plugin_meminfo_t load_of(unsigned size) {
    return static_cast<qemu_plugin_meminfo_t>(std::countr_zero(size)) << 4 | 1u << 16;
}

}  // namespace pagelens
