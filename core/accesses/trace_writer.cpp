#include "core/accesses/trace_writer.hpp"

#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "core/accesses/crc32c.hpp"
#include "core/accesses/line_predictor.hpp"
#include "core/accesses/varint.hpp"
#include "core/address/units.hpp"

namespace pagelens {

namespace {

// Of one event, with the touches that waited for it and the length of the codes.
constexpr std::size_t event_bytes_limit = (1 + 3 * varint_limit) * (1 + SetHistory::depth);
constexpr std::size_t first_buffer = 4096;  // threads that do little cost little
constexpr int compression_level = 3;        // as fast as 1 on such bytes, 5 to 7% smaller

using Bytes = std::vector<std::uint8_t>;

void append_varint(Bytes& to, std::uint64_t value) {
    std::uint8_t buffer[varint_limit];
    to.insert(to.end(), buffer, write_varint(buffer, value));
}

void append_text(Bytes& to, std::string_view text) {
    append_varint(to, text.size());
    to.insert(to.end(), text.begin(), text.end());
}

Bytes text_body(std::string_view text) { return Bytes(text.begin(), text.end()); }

Bytes varint_body(std::initializer_list<std::uint64_t> values) {
    Bytes body;
    for (const std::uint64_t value : values) append_varint(body, value);
    return body;
}

// The chunk as it stands in the file: frame, compressed payload.
Bytes make_chunk(ChunkFrame frame, std::span<const std::uint8_t> payload) {
    Bytes chunk(sizeof frame + ZSTD_compressBound(payload.size()));
    const std::size_t size = ZSTD_compress(chunk.data() + sizeof frame, chunk.size() - sizeof frame,
                                           payload.data(), payload.size(), compression_level);
    chunk.resize(sizeof frame + size);
    frame.raw_bytes = static_cast<std::uint32_t>(payload.size());
    frame.compressed_bytes = static_cast<std::uint32_t>(size);
    std::memcpy(chunk.data(), &frame, sizeof frame);
    frame.crc = crc32c(0, std::span(chunk).subspan(sizeof frame.crc));
    std::memcpy(chunk.data(), &frame, sizeof frame);
    return chunk;
}

// Which stream predicts a line, without a search: two small tables of hints, checked when used.
class StreamHints {
  public:
    static constexpr unsigned none = 0xff;
    StreamHints() {
        exact_.fill(none);
        near_.fill(none);
    }
    std::uint8_t& exact(EventKind kind, std::uint64_t line) { return exact_[hash(kind, line)]; }
    std::uint8_t& near(EventKind kind, std::uint64_t line) { return near_[hash(kind, line >> 6)]; }

  private:
    static std::size_t hash(EventKind kind, std::uint64_t value) {
        return ((value * 8 + static_cast<std::uint64_t>(kind)) * 0x9e3779b97f4a7c15u) >> 56;
    }
    std::array<std::uint8_t, 256> exact_;  // by predicted line
    std::array<std::uint8_t, 256> near_;   // by the page where the stream stands
};

// One part of a chunk's payload in the making.
struct Part {
    Bytes bytes = Bytes(first_buffer);
    std::uint8_t* at = bytes.data();

    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at - bytes.data()); }
    [[nodiscard]] std::span<const std::uint8_t> written() const {
        return std::span(bytes).first(size());
    }
    void grow(std::size_t room) {
        const std::size_t used = size();
        bytes.resize(room);
        at = bytes.data() + used;
    }
};

bool is_line(EventKind kind) { return static_cast<unsigned>(kind) < line_kinds; }

}  // namespace

struct ThreadEncoder::State {
    TraceWriter& writer;
    std::uint32_t thread;
    std::size_t room = first_buffer;  // for both parts together; each has as much
    Part codes, touch_codes;
    std::uint64_t instructions = 0;  // at the end of the codes
    std::uint64_t stamped = 0;       // reached, perhaps not yet written
    // Everything below starts anew with each chunk, so that chunks decode on their own.
    std::uint64_t first_instruction = 0;
    std::uint32_t events = 0;
    LinePredictor predictor;
    StreamHints hints;
    SetHistory history;
    std::array<std::uint64_t, SetHistory::depth> touched;  // lines, not yet encoded
    unsigned touches = 0;
    std::uint64_t last_page = 0;
    std::uint64_t last_block = 0;
    std::uint64_t last_sync = 0;

    State(TraceWriter& w, std::uint32_t id) : writer(w), thread(id) {}

    void make_room() {
        if (room - codes.size() - touch_codes.size() >= event_bytes_limit) return;
        if (room >= chunk_raw_limit) {
            flush();
            return;
        }
        room = std::min<std::size_t>(room * 4, chunk_raw_limit);
        codes.grow(room);
        touch_codes.grow(room);
    }

    void unsigned_value(std::uint64_t value) { codes.at = write_varint(codes.at, value); }
    void difference(std::uint64_t value, std::uint64_t& last) {
        codes.at = write_varint(codes.at, zigzag(value - last));
        last = value;
    }
    void progress(std::uint64_t count) {
        const std::uint64_t reached = std::max(count, instructions);
        unsigned_value(reached - instructions);
        instructions = reached;
    }

    void line(EventKind kind, std::uint64_t line_number) {
        const unsigned k = hints.exact(kind, line_number);
        if (k != StreamHints::none && predictor.prediction(k) == line_number &&
            predictor.kind(k) == kind) {
            *codes.at++ = static_cast<std::uint8_t>(code_next + k);
            predictor.next(k);
            remember(k, kind, line_number);
        } else {
            unpredicted(kind, line_number);
        }
        if (touches > 0) touches_before(line_number);
        *touch_codes.at++ = touches_end;
        history.use(kind, line_number);
    }

    // A touch waits for the line event that it precedes; encoded after that one it needs one byte.
    void touch(std::uint64_t line_number) {
        if (touches == touched.size() || (touches > 0 && !fits_touches(line_number)))
            plain_touches();
        if (history.place(line_number) == SetHistory::none) {
            plain_touches();
            line(EventKind::touch, line_number);
        } else {
            touched[touches++] = line_number;
        }
    }

    void touches_before(std::uint64_t line_number) {
        unsigned oldest = 0;  // in a row
        for (unsigned i = 0; i < touches; ++i) {
            const unsigned place = history.place(touched[i]);
            history.renew(line_number, place);
            if (place < SetHistory::depth - 1) {
                *touch_codes.at++ = static_cast<std::uint8_t>(code_touch + place);
                oldest = 0;
            } else if (oldest++ == 0) {
                *touch_codes.at++ = code_oldest;
            } else {
                ++touch_codes.at[-1];
            }
        }
        touches = 0;
    }

    void plain_touches() {
        const unsigned count = std::exchange(touches, 0);
        for (unsigned i = 0; i < count; ++i) line(EventKind::touch, touched[i]);
    }

    [[gnu::noinline]] void unpredicted(EventKind kind, std::uint64_t line_number) {
        unsigned k = hints.near(kind, line_number);
        if (k != StreamHints::none && predictor.kind(k) == kind) {
            const std::uint64_t jump = line_number - predictor.prediction(k);
            if (jump == 0) {
                *codes.at++ = static_cast<std::uint8_t>(code_next + k);
                predictor.next(k);
                return remember(k, kind, line_number);
            }
            if (zigzag(jump) < 2 * lines_per_page) {
                *codes.at++ = static_cast<std::uint8_t>(code_jump + k);
                unsigned_value(zigzag(jump));
                predictor.jump(k, line_number);
                return remember(k, kind, line_number);
            }
        }
        *codes.at++ = static_cast<std::uint8_t>(code_line + static_cast<unsigned>(kind));
        unsigned_value(zigzag(line_number - predictor.last_start(kind)));
        k = predictor.start(kind, line_number);
        remember(k, kind, line_number);
    }

    void remember(unsigned k, EventKind kind, std::uint64_t line_number) {
        hints.exact(kind, predictor.prediction(k)) = static_cast<std::uint8_t>(k);
        hints.near(kind, line_number) = static_cast<std::uint8_t>(k);
    }

    void other(const Event& event) {
        *codes.at++ =
            static_cast<std::uint8_t>(code_event + static_cast<unsigned>(event.kind) - line_kinds);
        switch (event.kind) {
            case EventKind::page_read:
            case EventKind::page_write:
                difference(event.address, last_page);
                break;
            case EventKind::unmap:
            case EventKind::discard:
                difference(event.address, last_page);
                unsigned_value(event.count);
                break;
            case EventKind::remap:
                difference(event.address, last_page);
                unsigned_value(event.count);
                unsigned_value(zigzag(event.extra - event.address));
                break;
            case EventKind::birth:
                difference(event.address, last_block);
                unsigned_value(event.count);
                unsigned_value(event.extra);
                break;
            case EventKind::death:
                difference(event.address, last_block);
                break;
            case EventKind::phase:
                progress(event.count);
                unsigned_value(event.extra);
                break;
            case EventKind::sync:
                progress(event.count);
                difference(event.extra, last_sync);
                break;
            default:
                break;  // line kinds do not come here
        }
    }

    void put(const Event& event) {
        make_room();
        if (event.kind == EventKind::touch) {
            touch(event.address);
        } else {
            if (touches > 0 && !(is_line(event.kind) && fits_touches(event.address)))
                plain_touches();
            if (is_line(event.kind)) {
                line(event.kind, event.address);
            } else {
                other(event);
            }
        }
        ++events;
    }

    [[nodiscard]] bool fits_touches(std::uint64_t line_number) const {
        return (touched[0] ^ line_number) % lines_per_page == 0;
    }

    void stamp(std::uint64_t count) {
        stamped = std::max(stamped, count);
        if (stamped - instructions >= stamp_grain) write_stamp();
    }

    void write_stamp() {
        if (stamped <= instructions) return;
        make_room();
        plain_touches();
        *codes.at++ = code_stamp;
        progress(stamped);
    }

    void flush() {
        plain_touches();
        if (codes.size() > 0) {
            ChunkFrame frame{};
            frame.type = static_cast<std::uint32_t>(ChunkType::events);
            frame.thread = thread;
            frame.events = events;
            frame.first_instruction = first_instruction;
            Bytes payload = varint_body({codes.size()});
            payload.reserve(payload.size() + codes.size() + touch_codes.size());
            for (const Part* part : {&codes, &touch_codes})
                payload.insert(payload.end(), part->written().begin(), part->written().end());
            writer.write_events(frame, payload);
        }
        codes.at = codes.bytes.data();
        touch_codes.at = touch_codes.bytes.data();
        first_instruction = instructions;
        events = 0;
        predictor = LinePredictor();
        hints = StreamHints();
        history = SetHistory();
        last_page = last_block = last_sync = 0;
    }
};

ThreadEncoder::ThreadEncoder(TraceWriter& writer, std::uint32_t thread)
    : state_(std::make_unique<State>(writer, thread)) {}
ThreadEncoder::~ThreadEncoder() = default;

void ThreadEncoder::put(const Event& event) { state_->put(event); }

void ThreadEncoder::put(std::span<const Event> events) {
    State& state = *state_;
    for (const Event& event : events) state.put(event);
}

void ThreadEncoder::stamp(std::uint64_t instructions) { state_->stamp(instructions); }

void ThreadEncoder::flush() {
    state_->write_stamp();
    state_->flush();
}

TraceWriter::TraceWriter(const std::string& path, const TraceHeader& header) : file_(path) {
    Bytes preamble(trace_magic.begin(), trace_magic.end());
    for (unsigned i = 0; i < 4; ++i)
        preamble.push_back(static_cast<std::uint8_t>(trace_version >> (8 * i)));
    append_to_file(preamble);

    const std::lock_guard lock(mutex_);
    add_field(ChunkType::header, Tag::producer, text_body(header.producer));
    add_field(ChunkType::header, Tag::program, text_body(header.program));
    for (const std::string& argument : header.arguments)
        add_field(ChunkType::header, Tag::argument, text_body(argument));
    for (const CacheShape family : header.exact_for)
        add_field(ChunkType::header, Tag::exact_for, varint_body({family.sets, family.ways}));
    add_field(ChunkType::header, Tag::page_filter,
              varint_body({header.page_filter.sets, header.page_filter.ways}));
    write_fields();
}

TraceWriter::~TraceWriter() = default;

ThreadEncoder& TraceWriter::thread(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<ThreadEncoder>& encoder = encoders_[id];
    if (!encoder) encoder = std::make_unique<ThreadEncoder>(*this, id);
    return *encoder;
}

void TraceWriter::end_thread(std::uint32_t id) {
    decltype(encoders_)::node_type ended;
    {
        const std::lock_guard lock(mutex_);
        ended = encoders_.extract(id);
    }
    if (ended) ended.mapped()->flush();
}

void TraceWriter::define(const ModuleDefinition& module) {
    Bytes body;
    append_text(body, module.path);
    append_text(body, module.build_id);
    for (const std::uint64_t value : {module.base, module.start, module.size})
        append_varint(body, value);
    append_varint(body, module.file_backed.size());
    for (const auto& [start, size] : module.file_backed) {
        append_varint(body, start - module.start);
        append_varint(body, size);
    }
    add_definition(Tag::module, body);
}

void TraceWriter::define(const CallSiteDefinition& site) {
    Bytes body = varint_body({site.id, site.return_addresses.size()});
    for (const std::uint64_t address : site.return_addresses) append_varint(body, address);
    add_definition(Tag::call_site, body);
}

void TraceWriter::define(const PhaseDefinition& phase) {
    Bytes body = varint_body({phase.id});
    append_text(body, phase.name);
    add_definition(Tag::phase, body);
}

void TraceWriter::define(const RegionDefinition& region) {
    add_definition(Tag::region, varint_body({static_cast<std::uint64_t>(region.kind), region.start,
                                             region.size}));
}

void TraceWriter::warn(std::string_view text) { add_definition(Tag::warning, text_body(text)); }

void TraceWriter::finish(const TraceSummary& summary) {
    for (const auto& [id, encoder] : encoders_) encoder->flush();
    if (error() != 0) return;
    const std::lock_guard lock(mutex_);
    const auto add = [this](Tag tag, std::uint64_t value) {
        add_field(ChunkType::summary, tag, varint_body({value}));
    };
    add(Tag::instructions, summary.instructions);
    add(Tag::accesses, summary.accesses);
    if (summary.total_instructions) add(Tag::total_instructions, *summary.total_instructions);
    add(Tag::exit_status, zigzag(static_cast<std::uint64_t>(std::int64_t{summary.exit_status})));
    write_fields();
    if (const int closed = file_.close(); closed != 0) fail(closed);
}

void TraceWriter::abandon() {
    fail(ECANCELED);  // and no lock: a thread that the child does not have may hold it
    file_.close();
}

void TraceWriter::fail(int error) {
    int none = 0;
    error_.compare_exchange_strong(none, error);
}

void TraceWriter::add_definition(Tag tag, const Bytes& body) {
    if (error() != 0) return;
    const std::lock_guard lock(mutex_);
    add_field(ChunkType::definitions, tag, body);
}

void TraceWriter::add_field(ChunkType type, Tag tag, const Bytes& body) {
    const std::size_t bytes = body.size() + 2 * varint_limit;
    if (bytes > chunk_raw_limit) return fail(EMSGSIZE);
    if (type != fields_type_ || fields_.size() + bytes > chunk_raw_limit) write_fields();
    fields_type_ = type;
    append_varint(fields_, static_cast<std::uint64_t>(tag));
    append_varint(fields_, body.size());
    fields_.insert(fields_.end(), body.begin(), body.end());
}

void TraceWriter::write_fields() {
    if (fields_.empty()) return;
    ChunkFrame frame{};
    frame.type = static_cast<std::uint32_t>(fields_type_);
    append_to_file(make_chunk(frame, fields_));
    fields_.clear();
}

void TraceWriter::write_events(const ChunkFrame& frame, std::span<const std::uint8_t> payload) {
    if (error() != 0) return;
    const Bytes chunk = make_chunk(frame, payload);  // compressed outside of the lock
    const std::lock_guard lock(mutex_);
    write_fields();
    append_to_file(chunk);
}

void TraceWriter::append_to_file(std::span<const std::uint8_t> bytes) {
    if (error() != 0) return;
    if (const int failed = file_.append(bytes); failed != 0) return fail(failed);
    bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

}  // namespace pagelens
