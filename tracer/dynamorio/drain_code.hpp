// Machine code that works through what a thread recorded. A block that runs often gets code of its
// own, in which its accesses, their displacements and sizes are constants. The code does exactly
// what ThreadRecording::execute does for the block, so the trace is the same to the byte.
//
// The code of a block ends with a jump to that of the next block in the buffer. Blocks without code
// of their own share a routine that calls ThreadRecording::execute. Number 0 ends the buffer.
#pragma once

#include <dr_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "tracer/dynamorio/drain_memory.hpp"
#include "tracer/dynamorio/recorded_block.hpp"
#include "tracer/qemu_plugin_api.h"

namespace pagelens {

class DrainAssembler;
class ThreadRecording;
class Tracer;
struct Vcpu;

// The functions that the code calls. `at` is where the number of the block is.
struct DrainFunctions {
    // These three return where in the strip the line is then (Strip::place_of).
    std::uint64_t (*pass_load)(Tracer*, Vcpu*, std::uint64_t address, qemu_plugin_meminfo_t,
                               AccessPlace);
    std::uint64_t (*pass_store)(Tracer*, Vcpu*, std::uint64_t address, qemu_plugin_meminfo_t,
                                AccessPlace);
    // An access of more than 8 bytes that the strip did not hide as a whole.
    std::uint64_t (*pass_pieces)(ThreadRecording*, const std::uint64_t* at, std::uint64_t address,
                                 const RecordedAccess*);
    // A string operation, or a non-temporal store.
    void (*other_access)(ThreadRecording*, const std::uint64_t* at, std::uint64_t,
                         const RecordedAccess*);
    void (*look)(ThreadRecording*, const std::uint64_t* at);
    void (*look_in_loop)(ThreadRecording*, const std::uint64_t* at, std::uint64_t,
                         const RecordedBlock*);
    void (*branch)(ThreadRecording*, const std::uint64_t* at);
    // Executes a block without code; returns where the next one is.
    const std::uint64_t* (*execute)(ThreadRecording*, const std::uint64_t* at);
};

class DrainCode {
  public:
    // `table` has an entry for each block's number. `after`: Options::code_after.
    DrainCode(Tracer& tracer, const DrainFunctions& functions, std::atomic<const void*>* table,
              std::uint64_t after);

    // Returns false if the system gives no memory for code.
    bool install();

    // Lets the block be worked through, by no code of its own as yet.
    void add(std::uint64_t number) { table_[number].store(cold_, std::memory_order_release); }
    // Call this when a block without code is executed so many times. From any thread. Returns
    // whether it has code from now on.
    bool count(std::uint64_t number, const RecordedBlock& block, std::uint64_t executions) {
        return block.is_execution(after_, executions) && make(number, block);
    }

    // Works through the blocks from `at` up to number 0, while the stage is `tracing`. Returns
    // where that number stands.
    const std::uint64_t* run(ThreadRecording& recording, Vcpu& vcpu,
                             const std::uint64_t* at) const {
        return enter_(&recording, &vcpu, at, table_);
    }

  private:
    using Enter = const std::uint64_t* (*)(ThreadRecording*, Vcpu*, const std::uint64_t*,
                                           const std::atomic<const void*>*);
    // Routines that save the registers of the code and call a function of the tracer.
    enum class Call { load, store, pieces, other, look, look_in_loop, branch };
    static constexpr unsigned calls = 7;

    bool make(std::uint64_t number, const RecordedBlock& block);
    class Execution;
    [[nodiscard]] const void* routine(Call call) const {
        return calls_[static_cast<unsigned>(call)];
    }
    const void* emit(DrainAssembler& code);
    // Of DrainMemory::places. Where there are too many, two accesses have the same one.
    int next_place() { return static_cast<int>(places_++ % drain_places); }

    Tracer& tracer_;
    const DrainFunctions functions_;
    std::atomic<const void*>* table_;
    const std::uint64_t after_;
    Enter enter_ = nullptr;
    const void* cold_ = nullptr;
    const void* calls_[calls] = {};
    std::atomic<unsigned> places_{0};
    std::mutex mutex_;  // of what follows
    byte* free_ = nullptr;
    byte* end_ = nullptr;
};

}  // namespace pagelens
