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
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pagelens {

class ShadowStack {
  public:
    // Frames kept. Deeper recursion overwrites the outermost frames, as in a ring.
    static constexpr std::size_t capacity = 1024;
    // Frames that a snapshot looks at: bounds its cost in deep recursion.
    static constexpr std::size_t snapshot_depth = 256;

    // A call pushed `return_address` to the stack slot at `slot`.
    void call(std::uint64_t return_address, std::uint64_t slot) {
        drop_up_to(slot);
        top_ = (top_ + 1) & (capacity - 1);
        frames_[top_] = {return_address, slot};
        depth_ += depth_ < capacity;
    }

    // A ret loaded its return address from the stack slot at `slot`.
    void ret(std::uint64_t slot) { drop_up_to(slot); }

    // Fills `out` with return addresses, innermost first, each one once: a recursive function
    // is the same call site at any depth. Returns how many were written.
    std::size_t snapshot(std::span<std::uint64_t> out) const {
        std::size_t n = 0;
        const std::size_t depth = std::min(depth_, snapshot_depth);
        for (std::size_t i = 0; i < depth && n < out.size(); ++i) {
            const std::uint64_t address = frames_[(top_ - i) & (capacity - 1)].return_address;
            std::size_t seen = 0;
            while (seen < n && out[seen] != address) ++seen;
            if (seen == n) out[n++] = address;
        }
        return n;
    }

    std::size_t depth() const { return depth_; }
    void clear() { depth_ = 0; }  // vCPU indices are reused by later threads

  private:
    struct Frame {
        std::uint64_t return_address;
        std::uint64_t slot;
    };

    void drop_up_to(std::uint64_t slot) {
        while (depth_ > 0 && frames_[top_].slot <= slot) {
            top_ = (top_ - 1) & (capacity - 1);
            --depth_;
        }
    }

    std::array<Frame, capacity> frames_;
    std::size_t top_ = 0;
    std::size_t depth_ = 0;
};

enum class Branch : std::uint8_t { none, call, ret };

// Which of the two an x86-64 instruction of `n` bytes is. Far calls and iret are neither: no
// user program has them.
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
