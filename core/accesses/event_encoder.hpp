// Encodes the events of one chunk: the inverse of ChunkDecoder (docs/trace-format.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/line_predictor.hpp"
#include "core/accesses/stream_hints.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/varint.hpp"

namespace pagelens::detail {

// One part of a chunk's payload in the making.
struct Part {
    std::vector<std::uint8_t> bytes;
    std::uint8_t* at = nullptr;

    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at - bytes.data()); }
    void grow(std::size_t room) {
        const std::size_t used = size();
        bytes.resize(room);
        at = bytes.data() + used;
    }
    void clear() { at = bytes.data(); }
};

class ChunkEncoder {
  public:
    ChunkEncoder() { grow(first_room); }

    // Makes room for one more event or stamp. False means that the chunk is full and must be
    // written first.
    [[nodiscard]] bool make_room() {
        if (room_ - codes_.size() - touch_codes_.size() >= event_bytes_limit) return true;
        if (room_ >= chunk_raw_limit) return false;
        grow(std::min<std::size_t>(room_ * 4, chunk_raw_limit));
        return true;
    }

    // Precondition of this and the next: make_room().
    void put(const Event& event) {
        if (event.kind == EventKind::touch) {
            touch(event.address);
        } else {
            if (touches_ > 0 && !(is_line(event.kind) && fits_touches(event.address)))
                plain_touches();
            if (is_line(event.kind)) {
                line(event.kind, event.address);
            } else {
                other(event);
            }
        }
        ++events_;
    }
    void stamp(std::uint64_t instructions) {
        plain_touches();
        *codes_.at++ = code_stamp;
        progress(instructions);
    }
    // Ends the touches; no event follows.
    void end() { plain_touches(); }

    [[nodiscard]] bool empty() const { return codes_.size() == 0; }
    [[nodiscard]] std::uint32_t events() const { return events_; }
    // Returns the thread's count at the chunk's beginning; instructions() returns what it is now.
    [[nodiscard]] std::uint64_t first_instruction() const { return first_instruction_; }
    [[nodiscard]] std::uint64_t instructions() const { return instructions_; }
    [[nodiscard]] std::vector<std::uint8_t> payload() const {
        std::vector<std::uint8_t> both(varint_limit + codes_.size() + touch_codes_.size());
        std::uint8_t* at = write_varint(both.data(), codes_.size());
        for (const Part* part : {&codes_, &touch_codes_})
            at = std::copy_n(part->bytes.data(), part->size(), at);
        both.resize(static_cast<std::size_t>(at - both.data()));
        return both;
    }

    // Begins the next chunk, where this one ends. Chunks decode on their own.
    void restart() {
        codes_.clear();
        touch_codes_.clear();
        first_instruction_ = instructions_;
        events_ = 0;
        predictor_ = LinePredictor();
        hints_ = StreamHints();
        history_ = SetHistory();
        last_page_ = last_block_ = last_sync_ = 0;
    }

  private:
    // The most bytes of one event, with the touches that waited for it and the length of the codes.
    static constexpr std::size_t event_bytes_limit =
        (1 + 3 * varint_limit) * (1 + SetHistory::depth);
    static constexpr std::size_t first_room = 4096;  // threads that do little cost little

    static bool is_line(EventKind kind) { return static_cast<unsigned>(kind) < line_kinds; }

    void grow(std::size_t room) {
        room_ = room;
        codes_.grow(room);
        touch_codes_.grow(room);
    }

    void unsigned_value(std::uint64_t value) { codes_.at = write_varint(codes_.at, value); }
    void difference(std::uint64_t value, std::uint64_t& last) {
        codes_.at = write_varint(codes_.at, zigzag(value - last));
        last = value;
    }
    void progress(std::uint64_t count) {
        const std::uint64_t reached = std::max(count, instructions_);
        unsigned_value(reached - instructions_);
        instructions_ = reached;
    }

    void line(EventKind kind, std::uint64_t line_number) {
        const unsigned k = hints_.exact(kind, line_number);
        if (k != StreamHints::none && predictor_.prediction(k) == line_number &&
            predictor_.kind(k) == kind) {
            *codes_.at++ = static_cast<std::uint8_t>(code_next + k);
            predictor_.next(k);
            remember(k, kind, line_number);
        } else {
            unpredicted(kind, line_number);
        }
        if (touches_ > 0) touches_before(line_number);
        *touch_codes_.at++ = touches_end;
        history_.use(kind, line_number);
    }

    // Lets a touch wait for the line event that it precedes. Encoded after that event, the touch
    // needs one byte.
    void touch(std::uint64_t line_number) {
        if (touches_ == touched_.size() || (touches_ > 0 && !fits_touches(line_number)))
            plain_touches();
        if (history_.place(line_number) == SetHistory::none) {
            plain_touches();
            line(EventKind::touch, line_number);
        } else {
            touched_[touches_++] = line_number;
        }
    }

    void touches_before(std::uint64_t line_number) {
        unsigned oldest = 0;  // in a row
        for (unsigned i = 0; i < touches_; ++i) {
            const unsigned place = history_.place(touched_[i]);
            history_.renew(line_number, place);
            if (place < SetHistory::depth - 1) {
                *touch_codes_.at++ = static_cast<std::uint8_t>(code_touch + place);
                oldest = 0;
            } else if (oldest++ == 0) {
                *touch_codes_.at++ = code_oldest;
            } else {
                ++touch_codes_.at[-1];
            }
        }
        touches_ = 0;
    }

    void plain_touches() {
        const unsigned count = std::exchange(touches_, 0);
        for (unsigned i = 0; i < count; ++i) line(EventKind::touch, touched_[i]);
    }

    [[gnu::noinline]] void unpredicted(EventKind kind, std::uint64_t line_number) {
        unsigned k = hints_.near(kind, line_number);
        if (k != StreamHints::none && predictor_.kind(k) == kind) {
            const std::uint64_t jump = line_number - predictor_.prediction(k);
            if (jump == 0) {
                *codes_.at++ = static_cast<std::uint8_t>(code_next + k);
                predictor_.next(k);
                return remember(k, kind, line_number);
            }
            if (zigzag(jump) < 2 * lines_per_page) {
                *codes_.at++ = static_cast<std::uint8_t>(code_jump + k);
                unsigned_value(zigzag(jump));
                predictor_.jump(k, line_number);
                return remember(k, kind, line_number);
            }
        }
        *codes_.at++ = static_cast<std::uint8_t>(code_line + static_cast<unsigned>(kind));
        unsigned_value(zigzag(line_number - predictor_.last_start(kind)));
        k = predictor_.start(kind, line_number);
        remember(k, kind, line_number);
    }

    void remember(unsigned k, EventKind kind, std::uint64_t line_number) {
        hints_.exact(kind, predictor_.prediction(k)) = static_cast<std::uint8_t>(k);
        hints_.near(kind, line_number) = static_cast<std::uint8_t>(k);
    }

    void other(const Event& event) {
        *codes_.at++ =
            static_cast<std::uint8_t>(code_event + static_cast<unsigned>(event.kind) - line_kinds);
        switch (event.kind) {
            case EventKind::page_read:
            case EventKind::page_write:
                difference(event.address, last_page_);
                break;
            case EventKind::unmap:
            case EventKind::discard:
                difference(event.address, last_page_);
                unsigned_value(event.count);
                break;
            case EventKind::remap:
                difference(event.address, last_page_);
                unsigned_value(event.count);
                unsigned_value(zigzag(event.extra - event.address));
                break;
            case EventKind::map_file:
            case EventKind::advise:
                difference(event.address, last_page_);
                unsigned_value(event.count);
                unsigned_value(event.extra);
                break;
            case EventKind::birth:
                difference(event.address, last_block_);
                unsigned_value(event.count);
                unsigned_value(event.extra);
                break;
            case EventKind::death:
                difference(event.address, last_block_);
                break;
            case EventKind::phase:
            case EventKind::wait:
                progress(event.count);
                unsigned_value(event.extra);
                break;
            case EventKind::sync:
                progress(event.count);
                difference(event.extra, last_sync_);
                break;
            default:
                break;  // line kinds do not come here
        }
    }

    [[nodiscard]] bool fits_touches(std::uint64_t line_number) const {
        return (touched_[0] ^ line_number) % lines_per_page == 0;
    }

    std::size_t room_ = 0;  // for both parts together; each has as much
    Part codes_, touch_codes_;
    std::uint64_t first_instruction_ = 0, instructions_ = 0;
    std::uint32_t events_ = 0;
    LinePredictor predictor_;
    StreamHints hints_;
    SetHistory history_;
    std::array<std::uint64_t, SetHistory::depth> touched_;  // lines, not yet encoded
    unsigned touches_ = 0;
    std::uint64_t last_page_ = 0;
    std::uint64_t last_block_ = 0;
    std::uint64_t last_sync_ = 0;
};

}  // namespace pagelens::detail
