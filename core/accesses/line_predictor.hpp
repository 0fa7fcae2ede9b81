// The state that the encoder and the decoder of line events keep alike: up to 64 streams of lines,
// each of one kind with a stride. A program's loop walks a few arrays at once, so the next line of
// some stream is nearly always the one that comes (docs/trace-format.md).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/accesses/event.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/address/units.hpp"

namespace pagelens {

inline constexpr unsigned line_kinds = 6;  // EventKind read .. page_touch
inline constexpr std::uint64_t line_number_limit = std::uint64_t{1} << 58;

class LinePredictor {
  public:
    [[nodiscard]] std::uint64_t prediction(unsigned k) const { return streams_[k].prediction; }
    [[nodiscard]] EventKind kind(unsigned k) const { return streams_[k].kind; }
    // Returns the line where the last stream of this kind started. It is near the next start if
    // lines are gathered.
    [[nodiscard]] std::uint64_t last_start(EventKind kind) const {
        return last_start_[static_cast<unsigned>(kind)];
    }

    // Stream k met its prediction.
    void next(unsigned k) {
        Stream& stream = streams_[k];
        stream.prediction += stream.stride;
        used_ |= std::uint64_t{1} << k;
    }

    // Stream k went to `line` instead. The same step twice in a row becomes the stride.
    void jump(unsigned k, std::uint64_t line) {
        Stream& stream = streams_[k];
        const std::uint64_t step = line - (stream.prediction - stream.stride);
        if (step == stream.last_step) stream.stride = step;
        stream.last_step = step;
        stream.prediction = line + stream.stride;
        used_ |= std::uint64_t{1} << k;
    }

    // Starts a stream with `line`, in place of one not used lately; returns its number.
    unsigned start(EventKind kind, std::uint64_t line) {
        std::uint64_t free = ~std::rotr(used_, static_cast<int>(hand_));
        if (free == 0) {
            used_ = 0;
            free = ~std::uint64_t{0};
        }
        const unsigned k =
            (hand_ + static_cast<unsigned>(std::countr_zero(free))) % predictor_streams;
        hand_ = (k + 1) % predictor_streams;
        streams_[k] = Stream{line + 1, 1, 0, kind};
        last_start_[static_cast<unsigned>(kind)] = line;
        return k;
    }

  private:
    struct Stream {
        std::uint64_t prediction = 0;
        std::uint64_t stride = 1;  // modulo 2^64, so it may be negative
        std::uint64_t last_step = 0;
        EventKind kind = EventKind::read;
    };
    std::array<Stream, predictor_streams> streams_{};
    std::uint64_t used_ = 0;  // bit k: stream k went on since the hand last passed over all
    unsigned hand_ = 0;
    std::array<std::uint64_t, line_kinds> last_start_{};
};

// The lines that each of 64 sets (address bits 6..11) had last. A touch repairs the order in which
// caches replace lines, so it comes just before a fetch, of one of the latest lines of the fetched
// line's set: its place among them says which.
class SetHistory {
  public:
    static constexpr unsigned depth = 8;
    static constexpr unsigned none = depth;

    // Returns the line at `place` (0: the latest) of the set that `line` is in.
    [[nodiscard]] std::uint64_t at(std::uint64_t line, unsigned place) const {
        const Set& set = sets_[line % sets_.size()];
        return set.lines[(set.latest - place) % depth];
    }

    [[nodiscard]] unsigned place(std::uint64_t line) const {
        unsigned place = 0;
        while (place < depth && at(line, place) != line) ++place;
        return place;
    }

    // Makes the line at `place` of the set of `line` its latest.
    void renew(std::uint64_t line, unsigned place) {
        Set& set = sets_[line % sets_.size()];
        if (place == depth - 1) {  // the oldest, as most are: it lies where the next one will
            ++set.latest;
            return;
        }
        const std::uint64_t renewed = at(line, place);
        for (; place > 0; --place)
            set.lines[(set.latest - place) % depth] = set.lines[(set.latest - place + 1) % depth];
        set.lines[set.latest % depth] = renewed;
    }

    // Updates the state for every line event that is not a touch told by its place.
    void use(EventKind kind, std::uint64_t line) {
        if (kind == EventKind::read || kind == EventKind::write) {
            Set& set = sets_[line % sets_.size()];
            set.lines[++set.latest % depth] = line;
        } else if (kind == EventKind::first_store || kind == EventKind::touch) {
            if (const unsigned known = place(line); known != none) renew(line, known);
        }
    }

  private:
    struct Set {
        std::array<std::uint64_t, depth> lines{};
        unsigned latest = 0;  // modulo depth
    };
    std::array<Set, lines_per_page> sets_{};
};

}  // namespace pagelens
