// The shared state of the plugin's callbacks: the tracer, its options, and the stage of tracing.
//
// Between two stages QEMU drops its translations (qemu_plugin_reset), so each stage pays only for
// its own callbacks.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tracer/options.hpp"
#include "tracer/qemu_plugin_api.h"
#include "tracer/self_test.hpp"
#include "tracer/tracer.hpp"

extern "C" {
// QEMU's own, beside the plugin interface.
extern std::uintptr_t guest_base;   // where guest address 0 is
extern __thread void* current_cpu;  // this thread's CPUState
void start_exclusive(void);         // waits until no other thread runs the program
void end_exclusive(void);
void qemu_plugin_disable_mem_helpers(void* cpu);
}

namespace pagelens {

enum class Stage {
    waiting,    // until the function of --from-function is called, and outside the region of
                // --region: calls, returns, doorbells
    skipping,   // --skip accesses are counted
    tracing,    // every access
    finishing,  // the budget is used up: instructions are counted in line
    idle,       // a child that is not traced unless it executes a program: system calls alone
};

inline Options options;
inline Tracer* tracer = nullptr;       // from the first translation on; never deleted
inline SelfTest* self_test = nullptr;  // likewise
inline std::atomic<Stage> stage{Stage::tracing};

// Any thread of the program may call this. The first one to ask for a stage gets it.
void go_to(Stage from, Stage to);

// Says why, and ends the program.
[[noreturn]] void give_up(const std::string& why);

inline void* as_data(std::uint64_t value) { return reinterpret_cast<void*>(value); }
inline std::uint64_t as_number(void* data) { return reinterpret_cast<std::uint64_t>(data); }

}  // namespace pagelens
