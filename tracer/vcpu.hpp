// A thread of the traced program, as the callbacks see it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/accesses/record.hpp"
#include "core/accesses/strip.hpp"
#include "tracer/block_queue.hpp"
#include "tracer/call_sites.hpp"
#include "tracer/session.hpp"
#include "tracer/shadow_stack.hpp"
#include "tracer/system_calls.hpp"

namespace pagelens {

// What a thread has beside its hot part; made when the thread begins.
struct Thread {
    Thread(std::uint32_t id, CallSites& sites, const Modules& modules)
        : number(id), site_cache(sites, modules) {}

    std::uint32_t number;  // in the trace file
    ShadowStack stack;
    CallSiteCache site_cache;
    SystemCall call;  // the one under way: its return callback lacks the arguments
    std::vector<std::uint64_t> phases;  // open regions, innermost last
    bool stack_known = false;           // its stack's region is in the file
};

// One a vCPU index, at a power of two from the last, so that a callback finds it in two
// instructions.
struct alignas(4096) Vcpu {
    Strip strip;
    std::uint64_t instructions = 0;
    Record* at = nullptr;  // the next record of the block
    Record* end = nullptr;
    Block* block = nullptr;      // null: nothing is recorded (no thread, or tracing is over)
    std::uint64_t stamp_at = 0;  // instruction count of the next stamp
    std::uint64_t check_at = 0;  // access count at which the budget is looked at
    std::size_t forgotten = 0;   // of the tracer's list of pages given back
    Thread* thread = nullptr;
    void* cpu = nullptr;  // QEMU's

    void push(Record record) { *at++ = record; }
    void push(const Event& event) {
        push(make_record(RecordKind::event, static_cast<std::uint64_t>(event.kind)));
        push(event.address);
        push(event.count);
        push(event.extra);
    }
};
static_assert(sizeof(Vcpu) == 4096);

}  // namespace pagelens
