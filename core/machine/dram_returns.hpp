// Lines on their way between a DRAM and the cores, in the order in which they are there.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/machine/dram_request.hpp"

namespace pagelens {

class DramReturns {
  public:
    // The times run from the command until the core has its place back.
    DramReturns(Picoseconds read_time, Picoseconds write_time) : times_{read_time, write_time} {
        for (Ring& ring : rings_) ring.reserve(0);
    }

    // Makes room for so many lines at a time. Precondition: there are none.
    void reserve(std::size_t lines) {
        for (Ring& ring : rings_) ring.reserve(lines);
    }

    // The least time from a command to its line's arrival.
    [[nodiscard]] Picoseconds least() const { return std::min(times_[0], times_[1]); }

    // The request's command goes out. Those of the same moment stay in order.
    void push(const DramRequest& request, Picoseconds now) {
        const Picoseconds at = now + times_[request.line.write];
        latency_[request.line.write] += at - request.issued;
        rings_[request.line.write].push({at, request.line.core});
    }
    // The next arrival; never() without lines.
    [[nodiscard]] Picoseconds next() const {
        return std::min(rings_[0].front().at, rings_[1].front().at);
    }
    // Takes out the next line, reads first among those of one moment. Returns its core.
    std::uint32_t pop() { return rings_[rings_[1].front().at < rings_[0].front().at].pop().core; }

    // The sum over reads of the time from a core's issue to its data.
    [[nodiscard]] Picoseconds read_latency() const { return latency_[0]; }

  private:
    struct Line {
        Picoseconds at = Picoseconds::never();
        std::uint32_t core = 0;
    };
    // Lines of one kind: their commands come nearly in order.
    class Ring {
      public:
        void reserve(std::size_t lines) {
            if (lines < ring_.size()) return;
            ring_.resize(std::bit_ceil(lines + 1));
            mask_ = ring_.size() - 1;
        }
        [[nodiscard]] const Line& front() const { return ring_[head_]; }
        void push(const Line& line) {
            std::size_t place = tail_;
            while (place != head_ && line.at < ring_[before(place)].at) {
                ring_[place] = ring_[before(place)];
                place = before(place);
            }
            ring_[place] = line;
            tail_ = after(tail_);
        }
        Line pop() {
            const Line line = ring_[head_];
            ring_[head_] = {};  // never() at the end
            head_ = after(head_);
            return line;
        }

      private:
        [[nodiscard]] std::size_t after(std::size_t place) const { return (place + 1) & mask_; }
        [[nodiscard]] std::size_t before(std::size_t place) const { return (place - 1) & mask_; }

        std::vector<Line> ring_;  // those that are empty never arrive
        std::size_t mask_ = 0, head_ = 0, tail_ = 0;
    };

    std::array<Picoseconds, 2> times_;
    std::array<Ring, 2> rings_;  // [write]
    std::array<Picoseconds, 2> latency_;
};

}  // namespace pagelens
