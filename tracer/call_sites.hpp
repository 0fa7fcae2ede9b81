// Numbers for allocation call sites: equal stacks have equal numbers, and each is defined once.
//
// A call site is the program's own frames, innermost first: from where it called into a runtime for
// the block (operator new, malloc) out to where a runtime had called it (main, a thread's function,
// a parallel region). So the threads of a parallel region share their sites.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>

#include "tracer/modules.hpp"
#include "tracer/shadow_stack.hpp"

namespace pagelens {

// Frames of a call site, at most.
inline constexpr std::size_t call_site_depth = 16;

class CallSites {
  public:
    using Define = std::function<void(const CallSiteDefinition&)>;  // 1 to call_site_depth frames

    // `define` is called once a site, before its number is returned, under a lock.
    CallSites(Modules& modules, Define define);

    // The number of the call site whose raw return addresses are `stack`, innermost first, those
    // of the interposer and the runtime included. Numbers count from 1; 0 is a stack of which
    // nothing is known (generated code only). From any thread.
    std::uint32_t number(std::span<const std::uint64_t> stack);

  private:
    Modules& modules_;
    const Define define_;
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by hash of the frames
};

// A thread's own short cut: recent stacks, found without a lock. 16 KiB; one a vCPU.
class CallSiteCache {
  public:
    explicit CallSiteCache(CallSites& sites, const Modules& modules)
        : sites_(sites), modules_(modules) {}

    // The call site of the innermost call on `stack`: what a doorbell's birth is given.
    std::uint32_t number(const ShadowStack& stack);

  private:
    struct Entry {
        std::uint64_t hash = 0;
        std::uint32_t site = 0;
    };
    CallSites& sites_;
    const Modules& modules_;
    std::array<Entry, 1024> entries_{};
};

}  // namespace pagelens
