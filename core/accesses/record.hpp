// The 8-byte records that a thread's strip hands to its filter: what is left of the accesses.
#pragma once

#include <cstdint>

namespace pagelens {

enum class RecordKind : std::uint8_t {
    load,          // `number` is a line that the strip could not hide
    store,         // the same
    stream_store,  // non-temporal store
    recency,  // `number` is a line of the strip that was used again, after its neighbour in the set
    page,     // `number` is the page that takes `slot` of the page filter; its access follows
    forget,   // `number` is the first of the pages that another thread gave back; a word follows:
              // how many
    instructions,  // `number` is the thread's instruction count
    event,         // `number` is an EventKind; address, count and extra follow as three words
    shared,        // the next access to line `number` is told of even if it hits; a word follows:
                   // the thread's instruction count
};

// A record is one word: kind, slot of the page filter (of the line's page), number.
using Record = std::uint64_t;

inline constexpr unsigned record_slot_shift = 4;
inline constexpr unsigned record_number_shift = 10;
inline constexpr unsigned event_words = 4;  // the record itself, address, count, extra

constexpr Record make_record(RecordKind kind, std::uint64_t number, unsigned slot = 0) {
    return static_cast<std::uint64_t>(kind) | std::uint64_t{slot} << record_slot_shift |
           number << record_number_shift;
}
constexpr RecordKind record_kind(Record record) { return static_cast<RecordKind>(record & 15); }
constexpr unsigned record_slot(Record record) {
    return static_cast<unsigned>(record >> record_slot_shift) & 63;
}
constexpr std::uint64_t record_number(Record record) { return record >> record_number_shift; }

// Pages are hidden from TLBs by a filter of 16 sets x 4 ways; slot = set * 4 + way.
inline constexpr unsigned page_sets = 16;
inline constexpr unsigned page_ways = 4;
inline constexpr unsigned page_slots = page_sets * page_ways;

}  // namespace pagelens
