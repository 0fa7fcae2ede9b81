// One trace file in the making: the writer's thread takes blocks of records, filters them thread by
// thread and encodes what is left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/accesses/filter.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tracer/block_queue.hpp"
#include "tracer/engine.hpp"

namespace pagelens {

class Session {
  public:
    // Creates PATH.partial, and the writer's thread if the engine can have one yet. Throws
    // std::system_error.
    Session(std::string path, const TraceHeader& header, const Engine& engine);
    ~Session() = default;

    // A thread of the program begins; returns its number in the file, which may have been that of a
    // thread that ended. From any thread, as is the rest.
    std::uint32_t begin_thread();
    // It ends; `block` holds its last records.
    void end_thread(Block* block);

    Block* take(std::uint32_t thread);
    void put(Block* block);

    // A writer's thread from here on, where the engine could not have one before; false: there is
    // none.
    bool start_writer(bool (*start_thread)(void (*work)(void*), void* argument));
    // Around a fork: the writer's thread holds no lock, not even of malloc, that the child misses.
    void hold_writer();
    void let_writer_go();

    TraceWriter& writer() { return writer_; }

    // Numbers the meetings of the program's threads in their order.
    std::uint64_t next_sync() { return syncs_.fetch_add(1, std::memory_order_relaxed); }

    // Writes what was put, the summary, and gives the file its name. Returns 0, or errno: the file
    // is then cut, or not there. `summary` becomes what the file states.
    int finish(TraceSummary& summary, TraceEnd end);

    // Call this in a forked child, which has no writer's thread. It leaves the file alone.
    void abandon();

  private:
    // The writer's thread: takes blocks until `finish` closes the queue.
    void write_blocks();
    void write(Block* block);

    std::string path_;
    TraceWriter writer_;
    BlockQueue queue_{64};
    std::map<std::uint32_t, Filter<ThreadEncoder>> filters_;
    std::mutex mutex_;  // of what follows
    std::uint32_t threads_ = 0;
    // Numbers free again. The lowest is taken first, not the one that ended last: that depends on
    // the host's scheduling.
    std::set<std::uint32_t> ended_;
    std::atomic<std::uint64_t> syncs_{1};
    std::condition_variable written_changed_;
    bool written_ = false;  // the writer's thread is done
    // False: each thread filters its blocks itself, one at a time.
    std::atomic<bool> has_writer_{false};
    std::mutex write_mutex_;  // of filters_
};

}  // namespace pagelens
