// The callbacks of what is not an access: calls and returns, doorbells, where tracing begins, and
// instructions that no QEMU executes.
#pragma once

#include <cstdint>

#include "tracer/stage.hpp"

namespace pagelens {

// `data`: the return address.
void on_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data);
void on_return(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void*);

// Until the self-test has passed calls have these callbacks, the first before the call runs.
void on_tested_call_begins(unsigned, void*);
void on_tested_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data);

void on_doorbell(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void*);
void on_begin_function(unsigned, void*);
// While skipping.
void on_skipped_access(unsigned, qemu_plugin_meminfo_t, std::uint64_t, void*);
// `address`: the instruction's.
void on_avx512(unsigned, void* address);

}  // namespace pagelens
