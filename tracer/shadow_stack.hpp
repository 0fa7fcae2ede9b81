// The guest's call stack, kept from its own call and ret instructions.
//
// A real unwind costs 11-25 us under emulation and optimised code has no frame pointers, but the
// plugin sees every call's push and every ret's load anyway: it keeps (return address, address of
// the stack slot that holds it) and needs no help from the program.
//
// What holds: stacks grow downwards, so a live frame's slot lies above every slot pushed later.
// Whatever leaves frames without a ret (longjmp, exceptions, thread exit) shows as a next push or
// ret at or above their slots, and they are dropped then. A tail call pushes nothing and its ret
// ends the caller's frame. After a switch to another stack (sigaltstack, coroutines) the innermost
// frames are right; outer ones may be those of the stack it came from.
//
// QEMU 7.2 may call the memory callback of a call or ret for a later atomic instruction that has
// no callback of its own: take only what the info says is a store (call) or a load (ret) alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

class ShadowStack {
  public:
    // Frames kept, at most. When they are full the outer half is forgotten.
    static constexpr std::size_t capacity = 1024;
    // Frames that a snapshot looks at: bounds its cost in deep recursion.
    static constexpr std::size_t snapshot_depth = 256;

    // A call pushed `return_address` to the stack slot at `slot`.
    void call(std::uint64_t return_address, std::uint64_t slot) {
        std::size_t top = frames_above(slot);
        if (top == capacity) top = forget_outer_half();
        frames_[top + 1] = {return_address, slot};
        top_ = top + 1;
    }

    // A ret loaded its return address from the stack slot at `slot`.
    void ret(std::uint64_t slot) { top_ = frames_above(slot); }

    // Fills `out` with return addresses, innermost first, each one once: a recursive function
    // is the same call site at any depth. Returns how many were written.
    std::size_t snapshot(std::span<std::uint64_t> out) const {
        std::size_t n = 0;
        const std::size_t depth = std::min(top_, snapshot_depth);
        for (std::size_t i = 0; i < depth && n < out.size(); ++i) {
            const std::uint64_t address = frames_[top_ - i].return_address;
            std::size_t seen = 0;
            while (seen < n && out[seen] != address) ++seen;
            if (seen == n) out[n++] = address;
        }
        return n;
    }

    std::size_t depth() const { return top_; }
    // The return address of the innermost call; 0 if none is known.
    std::uint64_t innermost() const { return frames_[top_].return_address; }

    // Prepares for the next thread. Call it when a thread ends: QEMU 7.2 announces a new thread
    // only after its first system call, when frames are on the stack.
    void clear() { top_ = 0; }

  private:
    struct Frame {
        std::uint64_t return_address;
        std::uint64_t slot;
    };

    // Returns how many frames have their slots above `slot`. Those below are gone.
    std::size_t frames_above(std::uint64_t slot) const {
        std::size_t top = top_;
        while (frames_[top].slot <= slot) --top;
        return top;
    }

    std::size_t forget_outer_half() {
        constexpr std::size_t half = capacity / 2;
        std::copy(frames_.begin() + half + 1, frames_.end(), frames_.begin() + 1);
        return capacity - half;
    }

    // Frame 0 is above every slot and never dropped.
    std::array<Frame, capacity + 1> frames_{{{0, ~std::uint64_t{0}}}};
    std::size_t top_ = 0;
};

enum class Branch : std::uint8_t { none, call, ret };

// Returns which of the two an x86-64 instruction of `n` bytes is. Far calls and iret are neither,
// because no user program has them.
inline Branch classify_branch(const std::uint8_t* bytes, std::size_t n) {
    std::size_t i = 0;
    const auto is_prefix = [](std::uint8_t b) {
        return (b & 0xf0) == 0x40 ||      // REX
               b == 0xf2 || b == 0xf3 ||  // bnd, rep (`rep ret` of older compilers)
               b == 0x66 || b == 0x67 ||  // padding before calls to __tls_get_addr
               b == 0x2e || b == 0x3e || b == 0x64 || b == 0x65;  // segments; 3e is `notrack`
    };
    while (i < n && is_prefix(bytes[i])) ++i;
    if (i == n) return Branch::none;
    if (bytes[i] == 0xe8) return Branch::call;
    if (bytes[i] == 0xc3 || bytes[i] == 0xc2) return Branch::ret;
    const bool indirect_call = bytes[i] == 0xff && i + 1 < n && ((bytes[i + 1] >> 3) & 7) == 2;
    return indirect_call ? Branch::call : Branch::none;
}

}  // namespace pagelens
