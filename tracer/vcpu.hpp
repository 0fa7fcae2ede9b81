// A thread of the traced program, as the callbacks see it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/accesses/record.hpp"
#include "core/accesses/strip.hpp"
#include "tracer/block_queue.hpp"
#include "tracer/call_sites.hpp"
#include "tracer/instruction_sampler.hpp"
#include "tracer/session.hpp"
#include "tracer/shadow_stack.hpp"
#include "tracer/system_calls.hpp"

namespace pagelens {

// The pages that a thread writes first at the moment, by one instruction.
struct FirstWriting {
    std::array<std::uint64_t, 3> code{};  // its block, its place there, and where it returns to
    FirstWrites run;
};

// The cold part of a thread's state. It is made when the thread begins.
struct Thread {
    Thread(std::uint32_t id, CallSites& sites, const Modules& modules)
        : number(id), site_cache(sites, modules) {}

    std::uint32_t number;  // in the trace file
    ShadowStack stack;
    CallSiteCache site_cache;
    SystemCall call;             // the one under way: its return callback lacks the arguments
    std::uint64_t moves_at = 0;  // if it is an mremap: the number of the meeting at which it began
    std::vector<std::uint64_t> phases;  // open regions, innermost last
    FirstWriting first_writing;
    InstructionSampler sampler;
    std::uint64_t look_due = 0;  // while a sample is taken: `look_at` without it
    bool stack_known = false;    // its stack's region is in the file
    // While it waits for other processes: the accesses that it had made before.
    std::optional<std::uint64_t> waits_since;
};

// One a vCPU index, at a power of two from the last, so that a callback finds it in two
// instructions.
struct alignas(8192) Vcpu {
    Strip strip;
    // Instructions until the tracer looks at the thread. Counted down: the subtraction that counts
    // a block also says when, without a comparison.
    std::int64_t left = 0;
    Record* at = nullptr;  // the next record of the block
    Record* end = nullptr;
    Block* block = nullptr;       // null, as then the two above: nothing is recorded (no thread, or
                                  // tracing is over)
    std::uint64_t look_at = 0;    // the instruction count when `left` is 0
    std::uint64_t budget_at = 0;  // and when the budget is looked at next
    const Record* stamped = nullptr;         // `at` after the last stamp
    InstructionSampler* sampling = nullptr;  // while a sample is taken
    std::size_t forgotten = 0;               // of the tracer's list of pages given back
    Thread* thread = nullptr;
    void* cpu = nullptr;       // QEMU's
    std::uint64_t unread = 0;  // address of what QEMU is about to read and the program does not

    // The string operation under way. QEMU executes a repeated string instruction once an element,
    // and once more at its end. It is the same operation as long as nothing else was executed.
    struct StringOperation {
        static constexpr std::uint64_t no_line = ~std::uint64_t{0};

        const void* instruction = nullptr;
        std::uint64_t executed = 0;  // the instruction count when an element was last executed
        std::uint64_t lines[2] = {no_line, no_line};  // the latest two, as Tracer::string_access
        std::uint64_t since_look = 0;                 // lines
    } string;
    // Accesses that the strip counted, but which stay in a line of their string operation.
    std::uint64_t same_line = 0;
    bool waits = false;  // for other threads, in the kernel

    // Made so far. A string operation makes one for each line that it comes to.
    [[nodiscard]] std::uint64_t accesses() const { return strip.accesses() - same_line; }

    // Executed so far.
    [[nodiscard]] std::uint64_t instructions() const {
        return look_at - static_cast<std::uint64_t>(left);
    }
    // As another thread sees it; roughly, since the thread may be running.
    [[nodiscard]] std::uint64_t instructions_seen() const {
        return __atomic_load_n(&look_at, __ATOMIC_RELAXED) -
               static_cast<std::uint64_t>(__atomic_load_n(&left, __ATOMIC_RELAXED));
    }
    // For other threads, too: whether it waits for others, or has ended.
    [[nodiscard]] bool rests() const {
        return __atomic_load_n(&waits, __ATOMIC_RELAXED) ||
               __atomic_load_n(&thread, __ATOMIC_RELAXED) == nullptr;
    }
    void look_in(std::int64_t later) {
        look_at = instructions() + static_cast<std::uint64_t>(later);
        left = later;
    }

    [[nodiscard]] bool has_room(std::size_t records) const {
        return static_cast<std::size_t>(end - at) >= records;
    }
    void write_to(Block* next) {
        block = next;
        at = block->records.data();
        end = at + Block::capacity;
    }
    // The block, whole; nothing is recorded from here on.
    Block* take_block() {
        block->size = static_cast<std::size_t>(at - block->records.data());
        at = end = nullptr;
        return std::exchange(block, nullptr);
    }

    void push(Record record) { *at++ = record; }
    void push(const Event& event) {
        push(make_record(RecordKind::event, static_cast<std::uint64_t>(event.kind)));
        push(event.address);
        push(event.count);
        push(event.extra);
    }
};
static_assert(sizeof(Vcpu) == 8192);

}  // namespace pagelens
