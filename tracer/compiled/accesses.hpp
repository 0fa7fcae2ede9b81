// Accesses of a compiled program on their way to the tracer.
#pragma once

#include <cstdint>

#include "core/address/units.hpp"
#include "tracer/compiled/own.hpp"

namespace pagelens {

// The tracer counts operands of more than 8 bytes as so many accesses.
constexpr unsigned pieces(unsigned bytes) { return bytes <= 8 ? 1 : (bytes + 7) / 8; }

// Records an operand that the strip did not hide. Time has passed for it.
template <bool store>
[[gnu::noinline]] void pass(Vcpu& vcpu, std::uint64_t address, unsigned bytes);

// Records an operand of at most 64 bytes.
template <bool store, unsigned bytes>
[[gnu::always_inline]] inline void touch(std::uint64_t address) {
    Vcpu* vcpu = pagelens_thread;
    if (vcpu == nullptr) [[unlikely]]
        if ((vcpu = thread_without_strip(pieces(bytes))) == nullptr) return;
    vcpu->strip.advance(pieces(bytes));
    if (!vcpu->strip.hides(address, store, line_bytes - bytes, 0)) [[unlikely]]
        pass<store>(*vcpu, address, bytes);
}

// Records a run of bytes, line by line, as if it were accessed in words of 8 bytes.
void touch_range(bool store, std::uint64_t address, std::uint64_t bytes);
// Records a copy: each line is read before it is written.
void touch_copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

}  // namespace pagelens
