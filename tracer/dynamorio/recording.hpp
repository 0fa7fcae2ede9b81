// A thread's buffer, filled by the code of recorded blocks, and its way into the tracer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tracer/dynamorio/drain_code.hpp"
#include "tracer/dynamorio/drain_memory.hpp"
#include "tracer/dynamorio/recorded_block.hpp"
#include "tracer/tracer.hpp"

namespace pagelens {

// All blocks that were translated, by number. Code that is running refers to them for ever.
class RecordedBlocks {
  public:
    static constexpr std::size_t limit = std::size_t{1} << 22;

    RecordedBlocks(RecordedBlock const** table, DrainCode& code) : table_(table), code_(code) {}

    // 0 if there is no room.
    std::uint32_t add(RecordedBlock block) {
        if (size_ == limit) return 0;
        table_[size_] = new RecordedBlock(std::move(block));
        code_.add(size_);
        return static_cast<std::uint32_t>(size_++);
    }
    [[nodiscard]] const RecordedBlock& operator[](std::uint64_t number) const {
        return *table_[number];
    }
    [[nodiscard]] DrainCode& code() const { return code_; }

  private:
    RecordedBlock const** table_;
    DrainCode& code_;
    std::size_t size_ = 1;
};

// The fields that the generated code finds in the thread's storage, at fixed places.
struct ThreadSlots {
    std::uint64_t* next;     // the next word to fill
    std::uint64_t* limit;    // beyond it there may be no room for a block
    std::uint64_t untraced;  // instructions that only were counted
};

class ThreadRecording : public DrainMemory {
  public:
    static constexpr std::size_t capacity = 8192;     // words
    static constexpr std::size_t block_limit = 1024;  // words that one block needs, at most
    // Words before the buffer that stand for no iteration: a loop looks for its last one there.
    static constexpr std::size_t guard = 1 + most_other_words;
    static_assert(most_other_words >= 1);  // as a counter takes

    ThreadRecording(Tracer& owner, const RecordedBlocks& blocks, unsigned index,
                    ThreadSlots& slots);

    // Hands what is in the buffer to the tracer. The thread calls it itself, or is stopped.
    void drain();
    // For the code of blocks.
    static const DrainFunctions functions;

    // An access that no block recorded, of the instruction at `place`.
    void access(std::uint64_t address, bool store, unsigned bytes, AccessPlace place);
    void stream_store(std::uint64_t address, AccessPlace place);
    void string_element(std::uint64_t address, bool store, unsigned bytes, AccessPlace place);

    [[nodiscard]] unsigned index() const { return index_; }
    [[nodiscard]] ThreadSlots& slots() { return slots_; }

    bool begins_thread = false;  // by the system call under way

    // The accesses that --skip still has to skip, over all threads.
    static inline std::atomic<std::int64_t> to_skip{0};

  private:
    const std::uint64_t* execute(const std::uint64_t* at);
    const std::uint64_t* execute_loop(const std::uint64_t* at);
    std::uint64_t iterations(const std::uint64_t* at) const;
    void execute(const RecordedBlock& block, const std::uint64_t* values);
    void branch(const RecordedBlock& block, const std::uint64_t* values);
    void other_access(const RecordedAccess& access, const std::uint64_t* values);
    void leave_code_at(const std::uint64_t* next);
    void leave_code_after(const std::uint64_t* at) { leave_code_at(at + 1 + blocks_[*at].words); }
    void look(const std::uint64_t* at, const RecordedBlock& loop);
    std::uint64_t& word(const std::uint64_t* at) { return words_[at - words_]; }
    void trace(const RecordedBlock& block, const std::uint64_t* values);
    void string_operation(const RecordedAccess& access, const std::uint64_t* values);
    bool skips(const RecordedBlock& block, const std::uint64_t* values);

    Tracer& tracer_;
    const RecordedBlocks& blocks_;
    const unsigned index_;
    Vcpu& vcpu_;
    ThreadSlots& slots_;
    std::uint64_t hidden_number_ = 0;  // that leave_code_at replaced by 0
    alignas(64) std::array<std::uint64_t, guard + capacity + 1> buffer_{};  // with a 0 behind
    std::uint64_t* const words_ = buffer_.data() + guard;
};

}  // namespace pagelens
