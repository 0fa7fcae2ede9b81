// Decodes the events of one chunk: the inverse of ThreadEncoder, on bytes that may be anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/accesses/event.hpp"
#include "core/accesses/line_predictor.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/varint.hpp"

namespace pagelens::detail {

inline constexpr std::uint64_t page_number_limit = std::uint64_t{1} << 52;
inline constexpr std::uint64_t instruction_limit = std::uint64_t{1} << 62;

class ChunkDecoder {
  public:
    ChunkDecoder() = default;
    // Of a chunk of events of either type. `payload` outlives the decoder. Touches that are told by
    // their place are given for `touched` sets only.
    ChunkDecoder(ChunkType type, std::span<const std::uint8_t> payload,
                 std::uint64_t first_instruction, LineSets touched = all_line_sets)
        : bytes_(payload), touched_(touched), instructions_(first_instruction) {
        if (type == ChunkType::one_part_events) return;
        const auto codes = bytes_.bytes(bytes_.varint());
        ok_ = bytes_.ok();
        touches_ = bytes_;
        bytes_ = ByteReader(codes);
    }

    // So far, and at the end: touches of no event are a fault too.
    [[nodiscard]] bool ok() const {
        return sound() && !(bytes_.at_end() && touches_ && !touches_->at_end());
    }
    [[nodiscard]] bool at_end() const { return bytes_.at_end(); }
    [[nodiscard]] std::size_t position() const { return bytes_.position(); }
    [[nodiscard]] std::uint64_t instructions() const { return instructions_; }

    // Fills `to` (of more than 8 events) up to the next stamp, phase or sync, the end or a fault;
    // returns how many are good.
    std::size_t decode(std::span<Event> to) {
        std::size_t filled = 0;
        while (filled + SetHistory::depth < to.size() && !bytes_.at_end()) {
            const unsigned code = bytes_.byte();
            if (code < code_event) {
                Event event = line_event(code);
                ByteReader& from = touches_ ? *touches_ : bytes_;
                // A touch is of the set of the line that it comes before.
                const bool wanted = (touched_ >> event.address % lines_per_page & 1) != 0;
                unsigned touches = 0;
                while (from.next_is_within(code_touch, touch_codes)) {
                    const unsigned touch_code = from.byte();
                    const bool oldest = touch_code >= code_oldest;
                    const unsigned count = oldest ? touch_code - code_oldest + 1 : 1;
                    touches += count;
                    if (touches > SetHistory::depth) ok_ = false;
                    if (!sound()) return filled;
                    for (unsigned i = 0; wanted && i < count; ++i)
                        to[filled++] = touch(event.address, oldest ? SetHistory::depth - 1
                                                                   : touch_code - code_touch);
                }
                if (touches_ && (touches_->byte() != touches_end || !touches_->ok())) ok_ = false;
                if (wanted)
                    history_.use(event.kind, event.address);
                else
                    event.count = touches;
                if (!sound()) return filled;
                to[filled++] = event;
            } else if (code == code_stamp) {
                progress();
                return filled;
            } else {
                const Event event = other_event(code - code_event + line_kinds);
                if (!sound()) return filled;
                to[filled++] = event;
                if (event.kind >= EventKind::phase) return filled;
            }
        }
        return filled;
    }

  private:
    static constexpr unsigned touch_codes = 2 * SetHistory::depth - 1;

    [[nodiscard]] bool sound() const { return bytes_.ok() && ok_; }

    Event line_event(unsigned code) {
        Event event{};
        if (code < code_jump) {
            event.kind = predictor_.kind(code);
            event.address = predictor_.prediction(code);
            predictor_.next(code);
        } else if (code < code_line) {
            const unsigned k = code - code_jump;
            event.kind = predictor_.kind(k);
            event.address = predictor_.prediction(k) + bytes_.signed_varint();
            predictor_.jump(k, event.address);
        } else {
            event.kind = static_cast<EventKind>(code - code_line);
            if (code - code_line >= line_kinds) {
                ok_ = false;
                return event;
            }
            event.address = predictor_.last_start(event.kind) + bytes_.signed_varint();
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
        const std::uint64_t step = bytes_.varint();
        if (step > instruction_limit || instructions_ > instruction_limit) {
            ok_ = false;
        } else {
            instructions_ += step;
        }
        return instructions_;
    }

    std::uint64_t difference(std::uint64_t& last) { return last += bytes_.signed_varint(); }

    std::uint64_t pages(std::uint64_t first, std::uint64_t count) {
        if (first >= page_number_limit || count > page_number_limit - first) ok_ = false;
        return count;
    }

    Event other_event(unsigned kind) {
        Event event{static_cast<EventKind>(kind), 0, 0, 0};
        if (kind > static_cast<unsigned>(EventKind::sync)) ok_ = false;
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
                event.count = pages(event.address, bytes_.varint());
                break;
            case EventKind::remap:
                event.address = difference(last_page_);
                event.count = pages(event.address, bytes_.varint());
                event.extra = event.address + bytes_.signed_varint();
                pages(event.extra, event.count);
                break;
            case EventKind::birth:
                event.address = difference(last_block_);
                event.count = bytes_.varint();
                event.extra = bytes_.varint();
                if (event.count > ~event.address) ok_ = false;
                break;
            case EventKind::death:
                event.address = difference(last_block_);
                break;
            case EventKind::phase:
                event.count = progress();
                event.extra = bytes_.varint();
                break;
            default:  // sync
                event.count = progress();
                event.extra = difference(last_sync_);
                break;
        }
        return event;
    }

    ByteReader bytes_{{}};
    LineSets touched_ = all_line_sets;
    std::optional<ByteReader> touches_;  // none: they are among the other codes
    bool ok_ = true;
    std::uint64_t instructions_ = 0;
    LinePredictor predictor_;
    SetHistory history_;
    std::uint64_t last_page_ = 0;
    std::uint64_t last_block_ = 0;
    std::uint64_t last_sync_ = 0;
};

}  // namespace pagelens::detail
