// The functions that the compiler calls at loads and stores. Their names are those of GCC's and
// clang's -fsanitize=thread (tsan_interface.h), whose run-time library is not linked.
#include "tracer/compiled/accesses.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#define PAGELENS_LAYOUT_ALONE
#include "hooks/pagelens_inline.h"
#include "tracer/meminfo.hpp"

namespace pagelens {
namespace {

template <bool store>
void pass_pieces(Vcpu& vcpu, std::uint64_t address, unsigned bytes) {
    const unsigned count = pieces(bytes);
    for (unsigned piece = 0; piece < count; ++piece) {
        const unsigned size = std::min(bytes - 8 * piece, 8u);
        const unsigned later = count - 1 - piece;
        const std::uint64_t at = address + 8 * piece;
        if (vcpu.strip.hides(at, store, line_bytes - size, later)) continue;
        tracer->pass<store>(vcpu, at, load_of(size), AccessPlace().with_later(later));
    }
}

// The part of a run that lies in one line.
void touch_in_line(bool store, std::uint64_t address, std::uint64_t bytes) {
    Vcpu* vcpu = pagelens_thread;
    const std::uint64_t made = (bytes + 7) / 8;
    if (vcpu == nullptr && (vcpu = thread_without_strip(made)) == nullptr) return;
    vcpu->strip.advance(made);
    if (vcpu->strip.hides(address, store, line_bytes - bytes, 0)) return;
    const unsigned one = static_cast<unsigned>(std::min<std::uint64_t>(bytes, 8));
    store ? pass<true>(*vcpu, address, one) : pass<false>(*vcpu, address, one);
}

std::uint64_t rest_of_line(std::uint64_t address, std::uint64_t bytes) {
    return std::min(bytes, line_bytes - address % line_bytes);
}

}  // namespace

template <bool store>
void pass(Vcpu& vcpu, std::uint64_t address, unsigned bytes) {
    const Inside inside;
    if (!inside || !count(vcpu)) return;
    if (bytes > 8) return pass_pieces<store>(vcpu, address, bytes);
    tracer->pass<store>(vcpu, address, load_of(std::bit_ceil(bytes)), AccessPlace());
}

void touch_range(bool store, std::uint64_t address, std::uint64_t bytes) {
    for (std::uint64_t part = 0; bytes > 0; address += part, bytes -= part) {
        part = rest_of_line(address, bytes);
        touch_in_line(store, address, part);
    }
}

void touch_copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    for (std::uint64_t part = 0; bytes > 0; to += part, from += part, bytes -= part) {
        part = std::min(rest_of_line(to, bytes), rest_of_line(from, bytes));
        touch_in_line(false, from, part);
        touch_in_line(true, to, part);
    }
}

}  // namespace pagelens

namespace {

template <bool store, unsigned bytes>
[[gnu::always_inline]] inline void touch_at(const void* address) {
    pagelens::touch<store, bytes>(reinterpret_cast<std::uint64_t>(address));
}

}  // namespace

#define HOOK extern "C" [[gnu::visibility("default")]] void
// An operand that may be unaligned, or volatile, is recorded as any other.
#define HOOKS(bytes)                                                                   \
    HOOK __tsan_read##bytes(void* p) { touch_at<false, bytes>(p); }                    \
    HOOK __tsan_write##bytes(void* p) { touch_at<true, bytes>(p); }                    \
    HOOK __tsan_unaligned_read##bytes(void* p) { touch_at<false, bytes>(p); }          \
    HOOK __tsan_unaligned_write##bytes(void* p) { touch_at<true, bytes>(p); }          \
    HOOK __tsan_volatile_read##bytes(void* p) { touch_at<false, bytes>(p); }           \
    HOOK __tsan_volatile_write##bytes(void* p) { touch_at<true, bytes>(p); }           \
    HOOK __tsan_unaligned_volatile_read##bytes(void* p) { touch_at<false, bytes>(p); } \
    HOOK __tsan_unaligned_volatile_write##bytes(void* p) { touch_at<true, bytes>(p); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
HOOK __tsan_read_range(void* p, unsigned long bytes) {
    pagelens::touch_range(false, reinterpret_cast<std::uint64_t>(p), bytes);
}
HOOK __tsan_write_range(void* p, unsigned long bytes) {
    pagelens::touch_range(true, reinterpret_cast<std::uint64_t>(p), bytes);
}
HOOK __tsan_vptr_read(void** p) { touch_at<false, 8>(p); }
HOOK __tsan_vptr_update(void** p, void*) { touch_at<true, 8>(p); }

// What the program's own code assumes (hooks/pagelens_inline.h).
static_assert(offsetof(pagelens::Vcpu, strip) == 0);
static_assert(offsetof(pagelens_strip, sets) == pagelens::StripLayout::sets);
static_assert(sizeof(pagelens_strip::sets) == pagelens::StripLayout::set_mask + 64);
static_assert(offsetof(pagelens_strip, sets[0].line[1][1]) == pagelens::StripLayout::line(1, 1));
static_assert(offsetof(pagelens_strip, sets[0].used) == pagelens::StripLayout::used);
static_assert(offsetof(pagelens_strip, clock) == pagelens::StripLayout::clock);

// For that code, which tests the strip in the program's own code.
HOOK pagelens_pass(void* p, unsigned bytes, unsigned store) {
    const auto address = reinterpret_cast<std::uint64_t>(p);
    store ? pagelens::pass<true>(*pagelens_thread, address, bytes)
          : pagelens::pass<false>(*pagelens_thread, address, bytes);
}
HOOK pagelens_pass_first(void* p, unsigned bytes, unsigned store) {
    if (pagelens::thread_without_strip(pagelens::pieces(bytes)) == nullptr) return;
    pagelens_thread->strip.advance(pagelens::pieces(bytes));
    pagelens_pass(p, bytes, store);
}
