// A thread's buffer, filled by the code of recorded blocks, and its way into the tracer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <dr_api.h>

#include "tracer/dynamorio/recorded_block.hpp"
#include "tracer/tracer.hpp"

namespace pagelens {

// All blocks that were translated, by number. Code that is running refers to them for ever.
class RecordedBlocks {
  public:
    static constexpr std::size_t limit = std::size_t{1} << 22;

    explicit RecordedBlocks(RecordedBlock const** table) : table_(table) {}

    // 0 if there is no room.
    std::uint32_t add(RecordedBlock block) {
        if (size_ == limit) return 0;
        table_[size_] = new RecordedBlock(std::move(block));
        return static_cast<std::uint32_t>(size_++);
    }
    [[nodiscard]] const RecordedBlock& operator[](std::uint64_t number) const {
        return *table_[number];
    }

  private:
    RecordedBlock const** table_;
    std::size_t size_ = 1;
};

// The fields that the generated code finds in the thread's storage, at fixed places.
struct ThreadSlots {
    std::uint64_t* next;     // the next word to fill
    std::uint64_t* limit;    // beyond it there may be no room for a block
    std::uint64_t untraced;  // instructions that only were counted
    // Of a sampled run:
    const std::uint8_t* probe;  // read after the buffer was full; not readable: the window is over
    std::int64_t left;          // instructions until the thread looks whether a window begins
    std::uint8_t* returns;      // of its ReturnMirror
};

// The return addresses that a thread's calls push between two windows, by 16 bits of where they lie
// on the stack. A call costs two stores there, and needs no test and no order: the frames are found
// when they are needed, as the places whose stack still holds what the mirror has.
class ReturnMirror {
  public:
    static constexpr std::size_t bytes = 1 << 16;

    // The place of the return address at `slot` of the stack. This is what the low bits of the
    // stack's pointer are before the call.
    static std::size_t place(std::uint64_t slot) { return (slot + 8) % bytes; }
    std::uint64_t& at(std::uint64_t slot) { return words_[place(slot) / 8]; }
    std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.data()); }
    void clear() { words_.fill(0); }

  private:
    std::array<std::uint64_t, bytes / 8> words_{};
};

class ThreadRecording {
  public:
    static constexpr std::size_t capacity = 8192;     // words
    static constexpr std::size_t block_limit = 1024;  // words that one block needs, at most

    ThreadRecording(Tracer& owner, const RecordedBlocks& blocks, unsigned index,
                    ThreadSlots& slots);

    ~ThreadRecording();
    ThreadRecording(const ThreadRecording&) = delete;
    ThreadRecording& operator=(const ThreadRecording&) = delete;

    // Hands what is in the buffer to the tracer. The thread calls it itself.
    void drain();
    // The same while it is stopped, perhaps in the midst of a block, whose record it then goes on
    // to write where it began.
    void drain_stopped();
    // An access that no block recorded, of the instruction at `place`.
    void access(std::uint64_t address, bool store, unsigned bytes, AccessPlace place);
    void string_element(std::uint64_t address, bool store, unsigned bytes, AccessPlace place);

    // Between two windows. The thread is stopped, or calls these itself. It looks whether the next
    // window begins after about so many instructions.
    void begin_gap(std::int64_t instructions);
    void look_in(std::int64_t instructions);
    [[nodiscard]] std::uint64_t executed_in_gap() const {
        return static_cast<std::uint64_t>(allotted_ - slots_.left);
    }
    // Adds the instructions since the last time to the thread's count.
    void count_gap();
    // Makes the shadow stack that of the thread, whose stack pointer this is. Where that is not
    // known, places of frames that were left by a longjmp may count as frames.
    void find_frames(std::uint64_t stack_pointer = 0);

    // Locked while the thread must not be stopped, as it may hold locks of the tracer.
    [[nodiscard]] void* busy() const { return busy_; }
    // Where the program goes on after the StageSwitch.
    app_pc resume_at = nullptr;

    [[nodiscard]] unsigned index() const { return index_; }
    [[nodiscard]] ThreadSlots& slots() { return slots_; }

    // The accesses that --skip still has to skip, over all threads.
    static inline std::atomic<std::int64_t> to_skip{0};
    // The instructions that are left of the window, over all threads.
    static inline std::atomic<std::int64_t> left_of_window{0};

  private:
    void execute(const RecordedBlock& block, const std::uint64_t* values);
    void trace(const RecordedBlock& block, const std::uint64_t* values);
    void string_operation(const RecordedAccess& access, const std::uint64_t* values);
    bool skips(const RecordedBlock& block, const std::uint64_t* values);

    Tracer& tracer_;
    const RecordedBlocks& blocks_;
    const unsigned index_;
    Vcpu& vcpu_;
    ThreadSlots& slots_;
    void* const busy_;
    std::int64_t allotted_ = 0;  // `slots_.left` when the instructions of a gap were last counted
    std::uint64_t seen_ = 0;     // instructions of windows
    ReturnMirror returns_;
    alignas(64) std::array<std::uint64_t, capacity> words_;
    const std::uint64_t* drained_;  // what comes before is the tracer's already
};

}  // namespace pagelens
