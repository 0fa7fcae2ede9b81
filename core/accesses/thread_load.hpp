// How unevenly the threads of a process are busy in each phase.
//
// The merged trace has a clock (merge.hpp), on which who waits for another thread stands still. So
// the course of the clock says how many threads work side by side. Each phase is divided into short
// bins of it. Those in which equally many threads work are one group, which knows how long it is
// and what each thread does in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace pagelens {

// Parts of phases in which equally many threads work. A part has the same index in each of these;
// `executed` and `lines` have all threads of a part in a row.
struct ThreadLoads {
    std::vector<std::uint32_t> phases;
    std::vector<std::uint64_t> clock;  // instructions that the clock counts in it
    std::vector<std::uint64_t> executed, lines;
};

class ThreadLoad {
  public:
    explicit ThreadLoad(std::size_t threads) : threads_(threads) {}

    // A thread has executed so many instructions, at least one, until this time of the clock, with
    // so many lines.
    void execute(unsigned thread, std::uint64_t count, std::uint64_t until, std::uint64_t lines) {
        if (threads_ < 2) return;
        const std::uint64_t from = until - std::min(until, count);
        if (end_ == 0) began_ = from;
        // What a thread began before the phase did counts as if it had begun with it.
        const std::uint64_t begin = from - std::min(from, began_), end = begin + count;
        end_ = std::max(end_, end);
        while ((end - 1) / width_ >= most_bins) widen();
        if (const std::size_t used = ((end - 1) / width_ + 1) * threads_; used > bins_.size())
            bins_.resize(used);
        Work left{count, lines};
        for (std::uint64_t at = begin; at < end;) {
            const std::uint64_t bin = at / width_, next = std::min(end, (bin + 1) * width_);
            Work& work = bins_[bin * threads_ + thread];
            const bool is_last = next >= end;
            const Work here{std::min(left.executed, next - at),
                            is_last ? left.lines : lines * (next - at) / count};
            work += is_last ? left : here;
            left -= here;
            at = next;
        }
    }

    void end_phase(std::uint32_t phase) {
        for (std::size_t bin = 0; bin * threads_ < bins_.size(); ++bin)
            add(phase, std::min(width_, end_ - bin * width_),
                std::span(bins_).subspan(bin * threads_, threads_));
        bins_.clear();
        width_ = least_width;
        end_ = 0;
    }

    [[nodiscard]] ThreadLoads finish() const {
        ThreadLoads result;
        for (const auto& [key, group] : groups_) {
            result.phases.push_back(key.first);
            result.clock.push_back(group.clock);
            for (const Work& work : group.of_thread) {
                result.executed.push_back(work.executed);
                result.lines.push_back(work.lines);
            }
        }
        return result;
    }

  private:
    static constexpr std::size_t most_bins = 512;
    static constexpr std::uint64_t least_width = 1 << 12;  // of a bin, in instructions
    static constexpr std::uint64_t works = 8;  // a thread that does one in so many of a bin

    struct Work {
        std::uint64_t executed = 0, lines = 0;
        Work& operator+=(const Work& other) {
            executed += other.executed;
            lines += other.lines;
            return *this;
        }
        Work& operator-=(const Work& other) {
            executed -= other.executed;
            lines -= other.lines;
            return *this;
        }
    };

    struct Group {
        std::uint64_t clock = 0;
        std::vector<Work> of_thread;
    };

    // Bins become twice as long.
    void widen() {
        width_ *= 2;
        const std::size_t bins = bins_.size() / threads_;
        for (std::size_t bin = 0; bin < bins; ++bin)
            for (std::size_t thread = 0; thread < threads_; ++thread) {
                const Work work = std::exchange(bins_[bin * threads_ + thread], Work{});
                bins_[bin / 2 * threads_ + thread] += work;
            }
        bins_.resize((bins + 1) / 2 * threads_);
    }

    void add(std::uint32_t phase, std::uint64_t width, std::span<const Work> of_thread) {
        std::uint64_t all = 0, most = 0;
        for (const Work& work : of_thread) {
            all += work.executed;
            most = std::max(most, work.executed);
        }
        if (all == 0) return;
        // The clock goes on while the process waits for others. Its own time is at most what its
        // threads do one after the other.
        const std::uint64_t clock = std::max(most, std::min(width, all));
        const auto working = static_cast<std::size_t>(std::ranges::count_if(
            of_thread, [&](const Work& work) { return work.executed * works >= most; }));
        Group& group = groups_[{phase, working}];
        group.of_thread.resize(threads_);
        group.clock += clock;
        for (std::size_t thread = 0; thread < threads_; ++thread)
            group.of_thread[thread] += of_thread[thread];
    }

    const std::size_t threads_;
    std::uint64_t began_ = 0;  // the clock when the phase did
    std::uint64_t end_ = 0;    // the last moment of a thread in the phase, since then
    std::uint64_t width_ = least_width;
    std::vector<Work> bins_;                                         // [bin, thread]
    std::map<std::pair<std::uint32_t, std::size_t>, Group> groups_;  // by phase, threads that work
};

}  // namespace pagelens
