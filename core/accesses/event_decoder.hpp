// Decodes the events of one chunk: the inverse of ThreadEncoder, on bytes that may be anything.
#pragma once

#include <cstdint>
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
    ChunkDecoder() : bytes_({}) {}
    // `payload` outlives the decoder.
    ChunkDecoder(std::span<const std::uint8_t> payload, std::uint64_t first_instruction)
        : bytes_(payload), instructions_(first_instruction) {}

    [[nodiscard]] bool ok() const { return bytes_.ok() && ok_; }
    [[nodiscard]] bool at_end() const { return bytes_.at_end(); }
    [[nodiscard]] std::size_t position() const { return bytes_.position(); }
    [[nodiscard]] std::uint64_t instructions() const { return instructions_; }

    // Fills `to` up to the next stamp, phase or sync, the end or a fault; returns how many are
    // good.
    std::size_t decode(std::span<Event> to) {
        std::size_t filled = 0;
        while (filled < to.size() && !bytes_.at_end() && ok()) {
            const unsigned code = bytes_.byte();
            Event& event = to[filled];
            if (code < code_jump) {
                event = line_event(predictor_.kind(code), predictor_.prediction(code));
                predictor_.next(code);
            } else if (code < code_line) {
                const unsigned k = code - code_jump;
                const std::uint64_t line = predictor_.prediction(k) + bytes_.signed_varint();
                event = line_event(predictor_.kind(k), line);
                predictor_.jump(k, line);
            } else if (code < code_line + line_kinds) {
                const auto kind = static_cast<EventKind>(code - code_line);
                const std::uint64_t line = predictor_.last_start(kind) + bytes_.signed_varint();
                event = line_event(kind, line);
                predictor_.start(kind, line);
            } else if (code == code_stamp) {
                progress();
                return filled;
            } else {
                const unsigned kind = code - code_event + line_kinds;
                if (code < code_event || kind > static_cast<unsigned>(EventKind::sync)) {
                    ok_ = false;
                    return filled;
                }
                event = other_event(static_cast<EventKind>(kind));
                if (ok() && event.kind >= EventKind::phase) return filled + 1;
            }
            if (ok()) ++filled;
        }
        return filled;
    }

  private:
    Event line_event(EventKind kind, std::uint64_t line) {
        if (line >= line_number_limit) ok_ = false;
        return Event{kind, line, 0, 0};
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

    Event other_event(EventKind kind) {
        Event event{kind, 0, 0, 0};
        switch (kind) {
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

    ByteReader bytes_;
    bool ok_ = true;
    std::uint64_t instructions_ = 0;
    LinePredictor predictor_;
    std::uint64_t last_page_ = 0;
    std::uint64_t last_block_ = 0;
    std::uint64_t last_sync_ = 0;
};

}  // namespace pagelens::detail
