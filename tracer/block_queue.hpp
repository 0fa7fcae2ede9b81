// Records on their way from the threads of the program to the writer: blocks of them, in a queue
// that is bounded, so that a program that is faster than the writer waits for it.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/accesses/record.hpp"

namespace pagelens {

struct Block {
    static constexpr std::size_t capacity = 16384;  // 128 KiB: stays in the caches on its way
    std::uint32_t thread = 0;
    bool last = false;  // of its thread
    std::size_t size = 0;
    std::array<Record, capacity> records;
};

class BlockQueue {
  public:
    // At most `limit` blocks exist, and one more for each thread, because every thread holds one.
    explicit BlockQueue(std::size_t limit) : limit_(limit) {}

    void reserve_one_more() {
        const std::lock_guard lock(mutex_);
        ++limit_;
        freed_.notify_one();
    }

    void reserve_one_less() {
        const std::lock_guard lock(mutex_);
        --limit_;
    }

    // While the writer is stopped nobody waits for it: as many blocks exist as threads fill.
    void grow(bool unbounded) {
        const std::lock_guard lock(mutex_);
        unbounded_ = unbounded;
        freed_.notify_all();
    }

    // An empty block; waits for the writer if there is none.
    Block* take() {
        std::unique_lock lock(mutex_);
        freed_.wait(lock,
                    [this] { return !free_.empty() || unbounded_ || blocks_.size() < limit_; });
        if (free_.empty()) {
            blocks_.push_back(std::make_unique_for_overwrite<Block>());
            free_.push_back(blocks_.back().get());
        }
        Block* block = free_.back();
        free_.pop_back();
        block->size = 0;
        block->last = false;
        return block;
    }

    // Blocks leave in the order in which they came.
    void put(Block* block) {
        const std::lock_guard lock(mutex_);
        filled_.push_back(block);
        arrived_.notify_one();
    }

    // The writer's side. Waits for a block. False: `close` was called and all blocks are out.
    bool wait() {
        std::unique_lock lock(mutex_);
        arrived_.wait(lock, [this] { return !filled_.empty() || closed_; });
        return !filled_.empty();
    }
    // Takes the block that `wait` waited for.
    Block* next() {
        const std::lock_guard lock(mutex_);
        Block* block = filled_.front();
        filled_.pop_front();
        return block;
    }
    void give_back(Block* block) {
        const std::lock_guard lock(mutex_);
        free_.push_back(block);
        freed_.notify_one();
    }

    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        arrived_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable freed_, arrived_;
    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<Block*> free_;
    std::deque<Block*> filled_;
    std::size_t limit_;
    bool closed_ = false, unbounded_ = false;
};

}  // namespace pagelens
