// The threads of a trace as one sequence, the same whatever the host's scheduling was.
//
// Each thread's events are stamped with its own instruction count. The merged order is that of
// clocks: a thread's clock is its count plus an offset, 0 at first. Syncs happen in the order of
// their numbers (from 1 on), and each moves its thread's clock to no earlier than that of the sync
// before it: who waited for another thread continues at that thread's time. Equal clocks: the
// thread whose first chunk comes first in the file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/accesses/trace_reader.hpp"

namespace pagelens {

class MergedTrace {
  public:
    struct Batch {
        unsigned thread = 0;             // index into TraceReader::threads()
        std::uint64_t instructions = 0;  // the thread's count that the events follow ...
        std::uint64_t until = 0;         // ... and the one that is reached after them
        std::uint64_t clock = 0;         // at `instructions`
        std::span<const Event> events;   // valid until the next call
    };

    // `touched` as TraceReader::stream has it.
    explicit MergedTrace(const TraceReader& reader, LineSets touched = all_line_sets) {
        sources_.reserve(reader.threads().size());
        for (unsigned thread = 0; thread < reader.threads().size(); ++thread)
            sources_.push_back({thread, reader.stream(thread, touched), {}, 0, std::nullopt});
        for (std::size_t i = 0; i < sources_.size();)
            if (load(sources_[i])) ++i;
    }

    // Returns nothing after the last batch.
    std::optional<Batch> next() {
        if (current_ != none) advance();
        current_ = choose();
        if (current_ == none) return std::nullopt;
        const Source& source = sources_[current_];
        return Batch{source.thread, source.batch.instructions, source.batch.until, source.clock(),
                     source.batch.events};
    }

    // Faults met so far, one a thread at most.
    [[nodiscard]] const std::vector<TraceFault>& faults() const { return faults_; }

  private:
    static constexpr std::size_t none = ~std::size_t{0};

    struct Source {
        unsigned thread;
        ThreadStream stream;
        ThreadStream::Batch batch;
        std::uint64_t offset;                  // clock = offset + count; modulo 2^64
        std::optional<std::uint64_t> pending;  // the sync that it waits for
        [[nodiscard]] std::uint64_t clock() const { return offset + batch.instructions; }
    };

    // Loads the next batch of `source`; without one, the source is erased and false is returned.
    bool load(Source& source) {
        if (auto batch = source.stream.next()) {
            source.batch = *batch;
            return true;
        }
        if (source.stream.fault()) faults_.push_back(*source.stream.fault());
        sources_.erase(sources_.begin() + (&source - sources_.data()));
        return false;
    }

    // Goes on after the batch given out last: its thread has the next one, or waits for the sync
    // that ended this one.
    void advance() {
        Source& source = sources_[current_];
        current_ = none;
        const auto events = source.batch.events;
        if (!events.empty() && events.back().kind == EventKind::sync)
            source.pending = events.back().extra;
        else
            load(source);
    }

    std::size_t choose() {
        for (;;) {
            std::size_t first = none;    // of those that may run, the earliest
            std::size_t waiting = none;  // of those that wait, the lowest number
            for (std::size_t i = 0; i < sources_.size(); ++i) {
                const Source& source = sources_[i];
                if (source.pending) {
                    if (waiting == none || *source.pending < *sources_[waiting].pending)
                        waiting = i;
                } else if (first == none || source.clock() < sources_[first].clock()) {
                    first = i;
                }
            }
            if (waiting == none || (first != none && *sources_[waiting].pending > next_sync_))
                return first;
            reach(sources_[waiting]);
        }
    }

    void reach(Source& source) {
        const std::uint64_t number = *source.pending;
        const std::uint64_t count = source.batch.until;
        sync_clock_ = std::max(sync_clock_, source.offset + count);
        source.offset = sync_clock_ - count;
        source.pending.reset();
        next_sync_ = std::max(next_sync_, number + 1);
        load(source);
    }

    std::vector<Source> sources_;  // of threads that have batches left
    std::size_t current_ = none;
    std::uint64_t next_sync_ = 1;
    std::uint64_t sync_clock_ = 0;
    std::vector<TraceFault> faults_;
};

}  // namespace pagelens
