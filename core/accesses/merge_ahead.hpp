// The merged trace for who goes through all of it: a thread of its own decodes and merges ahead.
//
// Decoding takes as long as what is done with the events, so that two processors have one each.
// Events are handed over some thousands at a time, lest the threads wait for each other more than
// they work, and at most a few MiB of them wait.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/accesses/merge.hpp"

namespace pagelens {

class MergedAhead {
  public:
    using Batch = MergedTrace::Batch;

    // Takes the same parameters as MergedTrace. The reader must outlive it.
    explicit MergedAhead(const TraceReader& reader, LineSets touched = all_line_sets)
        : thread_([this, &reader, touched] { decode(reader, touched); }) {}
    // The thread ends within some thousand events.
    ~MergedAhead() {
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }
    MergedAhead(const MergedAhead&) = delete;
    MergedAhead& operator=(const MergedAhead&) = delete;

    // Returns nothing after the last batch. Throws std::bad_alloc if the thread did.
    std::optional<Batch> next() {
        while (next_batch_ == blocks_[now_].batches.size())
            if (!next_block()) return std::nullopt;
        const Block& block = blocks_[now_];
        Batch batch = block.batches[next_batch_++];
        batch.events = std::span(block.events).subspan(next_event_, batch.events.size());
        next_event_ += batch.events.size();
        return batch;
    }

    // Returns all faults that were met. They are known when next() has given the last batch.
    [[nodiscard]] const std::vector<TraceFault>& faults() const { return faults_; }

  private:
    static constexpr std::size_t block_events = std::size_t{1} << 14;
    static constexpr std::size_t block_batches = std::size_t{1} << 12;  // that may have no events

    struct Block {
        std::vector<Batch> batches;  // how many events each has; they lie in `events`, in a row
        std::vector<Event> events;
    };

    // --- the thread's
    void decode(const TraceReader& reader, LineSets touched) {
        try {
            MergedTrace merged(reader, touched);
            std::size_t filling = 0;
            auto batch = merged.next();
            while (batch && wait_for_room()) {
                Block& block = blocks_[filling];
                block.batches.clear();
                block.events.clear();
                for (; batch && block.events.size() < block_events &&
                       block.batches.size() < block_batches;
                     batch = merged.next()) {
                    block.batches.push_back(*batch);
                    block.events.insert(block.events.end(), batch->events.begin(),
                                        batch->events.end());
                }
                hand_over();
                filling = (filling + 1) % blocks_.size();
            }
            faults_ = merged.faults();
        } catch (...) {
            failure_ = std::current_exception();
        }
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        changed_.notify_one();
    }
    // Waits until there is room. Returns false if nobody wants any more. One block is being read.
    bool wait_for_room() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ready_ + 1 < blocks_.size() || stopped_; });
        return !stopped_;
    }
    void hand_over() {
        {
            const std::lock_guard lock(mutex_);
            ++ready_;
        }
        changed_.notify_one();
    }

    // --- the reader's
    bool next_block() {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return ready_ > 0 || ended_; });
            if (ready_ == 0) {
                if (failure_) std::rethrow_exception(failure_);
                return false;
            }
            --ready_;
        }
        changed_.notify_one();
        now_ = (now_ + 1) % blocks_.size();
        next_batch_ = next_event_ = 0;
        return true;
    }

    std::array<Block, 4> blocks_;
    std::size_t now_ = blocks_.size() - 1;         // the block that is read; at first an empty one
    std::size_t next_batch_ = 0, next_event_ = 0;  // in it

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t ready_ = 0;  // blocks handed over and not yet read
    bool ended_ = false, stopped_ = false;
    std::vector<TraceFault> faults_;  // these two: the thread's until it has ended
    std::exception_ptr failure_;

    std::thread thread_;  // the last: it uses all of them
};

}  // namespace pagelens
