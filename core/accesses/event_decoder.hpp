// Decodes the events of one chunk: the inverse of ThreadEncoder, on bytes that may be anything.
#pragma once

#include <cstdint>
#include <span>

#include "core/accesses/event.hpp"
#include "core/accesses/line_predictor.hpp"
#include "core/accesses/touch_codes.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/varint.hpp"

namespace pagelens::detail {

inline constexpr std::uint64_t page_number_limit = std::uint64_t{1} << 52;
inline constexpr std::uint64_t instruction_limit = std::uint64_t{1} << 62;

class ChunkDecoder {
  public:
    ChunkDecoder() = default;
    // Decodes a chunk of events. `payload` must outlive the decoder. Touches that are told by their
    // place are given for `touched` sets only.
    ChunkDecoder(std::span<const std::uint8_t> payload, std::uint64_t first_instruction,
                 LineSets touched = all_line_sets)
        : codes_(payload), touched_(touched), instructions_(first_instruction) {
        const auto codes = codes_.bytes(codes_.varint());
        ok_ = codes_.ok();
        touches_ = codes_;
        codes_ = ByteReader(codes);
    }

    // Returns whether no fault was met so far. At the end, touches without an event are a fault,
    // too.
    [[nodiscard]] bool ok() const { return sound() && !(codes_.at_end() && !touches_.at_end()); }
    [[nodiscard]] bool at_end() const { return codes_.at_end(); }
    [[nodiscard]] std::size_t position() const { return codes_.position(); }
    [[nodiscard]] std::uint64_t instructions() const { return instructions_; }

    // Fills `to` (of more than 8 events) up to the next stamp, phase or sync, the end or a fault;
    // returns how many are good.
    std::size_t decode(std::span<Event> to) {
        // Copies, which are kept in registers.
        ByteReader codes = codes_, touches = touches_;
        const auto stop = [&](std::size_t filled) {
            codes_ = codes;
            touches_ = touches;
            return filled;
        };
        // Left-out events count as well, so that parts are the same whatever is given.
        std::size_t filled = 0, left_out = 0;
        while (filled + left_out + SetHistory::depth < to.size() && !codes.at_end()) {
            const unsigned code = codes.byte();
            if (code < code_event) {
                Event event = line_event(code, codes);
                // A touch is of the set of the line that follows it.
                if ((touched_ >> event.address % lines_per_page & 1) != 0) {
                    filled += take_touches(touches, event.address, to.subspan(filled));
                    history_.use(event.kind, event.address);
                } else {
                    event.count = skip_touches(touches);
                    left_out += event.count;
                }
                if (touches.byte() != touches_end) ok_ = false;
                if (!ok_ || !codes.ok() || !touches.ok()) return stop(filled);
                to[filled++] = event;
                continue;
            }
            stop(filled);
            if (code == code_stamp) {
                progress();
                return filled;
            }
            const Event event = other_event(code - code_event + line_kinds);
            codes = codes_;
            if (!sound()) return filled;
            to[filled++] = event;
            if (event.kind >= EventKind::phase) return filled;
        }
        return stop(filled);
    }

  private:
    [[nodiscard]] bool sound() const { return codes_.ok() && touches_.ok() && ok_; }

    // Puts the touches before a line into `to`, and returns how many there are. At a fault ok_ is
    // false.
    std::size_t take_touches(ByteReader& from, std::uint64_t line, std::span<Event> to) {
        std::size_t filled = 0;
        while (from.next_is_within(code_touch, touch_codes)) {
            const unsigned code = from.byte();
            const bool oldest = code >= code_oldest;
            const unsigned count = touches_of(code);
            if (filled + count > SetHistory::depth) {
                ok_ = false;
                break;
            }
            for (unsigned i = 0; i < count; ++i)
                to[filled++] = touch(line, oldest ? SetHistory::depth - 1 : code - code_touch);
        }
        return filled;
    }
    // Skips touches that nobody needs, and returns their number.
    std::uint64_t skip_touches(ByteReader& from) {
        if (const auto counted = count_touches(from.rest())) {
            from.skip(counted->codes);
            return counted->touches;
        }
        std::uint64_t touches = 0;
        while (from.next_is_within(code_touch, touch_codes)) {
            touches += touches_of(from.byte());
            if (touches > SetHistory::depth) ok_ = false;
        }
        return touches;
    }

    [[gnu::always_inline]] Event line_event(unsigned code, ByteReader& codes) {
        Event event{};
        if (code < code_jump) {
            event.kind = predictor_.kind(code);
            event.address = predictor_.prediction(code);
            predictor_.next(code);
        } else if (code < code_line) {
            const unsigned k = code - code_jump;
            event.kind = predictor_.kind(k);
            event.address = predictor_.prediction(k) + codes.signed_varint();
            predictor_.jump(k, event.address);
        } else {
            event.kind = static_cast<EventKind>(code - code_line);
            if (code - code_line >= line_kinds) {
                ok_ = false;
                return event;
            }
            event.address = predictor_.last_start(event.kind) + codes.signed_varint();
            predictor_.start(event.kind, event.address);
        }
        if (event.address >= line_number_limit) ok_ = false;
        return event;
    }

    Event touch(std::uint64_t line, unsigned place) {
        const Event event{EventKind::touch, history_.at(line, place), 0, 0};
        history_.renew(line, place);
        return event;
    }

    std::uint64_t progress() {
        const std::uint64_t step = codes_.varint();
        if (step > instruction_limit || instructions_ > instruction_limit) {
            ok_ = false;
        } else {
            instructions_ += step;
        }
        return instructions_;
    }

    std::uint64_t difference(std::uint64_t& last) { return last += codes_.signed_varint(); }

    std::uint64_t pages(std::uint64_t first, std::uint64_t count) {
        if (first >= page_number_limit || count > page_number_limit - first) ok_ = false;
        return count;
    }

    Event other_event(unsigned kind) {
        Event event{static_cast<EventKind>(kind), 0, 0, 0};
        if (kind > static_cast<unsigned>(EventKind::advise)) ok_ = false;
        if (!ok_) return event;
        switch (event.kind) {
            case EventKind::page_read:
            case EventKind::page_write:
                event.address = difference(last_page_);
                event.count = pages(event.address, 1);
                break;
            case EventKind::unmap:
            case EventKind::discard:
                event.address = difference(last_page_);
                event.count = pages(event.address, codes_.varint());
                break;
            case EventKind::remap:
                event.address = difference(last_page_);
                event.count = pages(event.address, codes_.varint());
                event.extra = event.address + codes_.signed_varint();
                pages(event.extra, event.count);
                break;
            case EventKind::map_file:
                event.address = difference(last_page_);
                event.count = pages(event.address, codes_.varint());
                event.extra = codes_.varint();
                if (event.count > ~event.extra) ok_ = false;
                break;
            case EventKind::advise:
                event.address = difference(last_page_);
                event.count = pages(event.address, codes_.varint());
                event.extra = codes_.varint();
                if (event.extra > 1) ok_ = false;
                break;
            case EventKind::birth:
                event.address = difference(last_block_);
                event.count = codes_.varint();
                event.extra = codes_.varint();
                if (event.count > ~event.address) ok_ = false;
                break;
            case EventKind::death:
                event.address = difference(last_block_);
                break;
            case EventKind::phase:
            case EventKind::wait:
                event.count = progress();
                event.extra = codes_.varint();
                break;
            default:  // sync
                event.count = progress();
                event.extra = difference(last_sync_);
                break;
        }
        return event;
    }

    ByteReader codes_{{}}, touches_{{}};
    LineSets touched_ = all_line_sets;
    bool ok_ = true;
    std::uint64_t instructions_ = 0;
    LinePredictor predictor_;
    SetHistory history_;
    std::uint64_t last_page_ = 0;
    std::uint64_t last_block_ = 0;
    std::uint64_t last_sync_ = 0;
};

}  // namespace pagelens::detail
