#include "core/accesses/trace_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "core/accesses/crc32c.hpp"
#include "core/accesses/event_encoder.hpp"
#include "core/accesses/varint.hpp"

namespace pagelens {

namespace {

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

std::uint64_t in_proportion(std::uint64_t count, std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return 0;
    const double share = static_cast<double>(part) / static_cast<double>(whole);
    return static_cast<std::uint64_t>(share * static_cast<double>(count) + 0.5);
}

Bytes end_body(TraceEnd end) {
    return varint_body({static_cast<std::uint64_t>(end.kind), end.detail, end.time});
}

// The chunk as it stands in the file: frame, compressed payload.
Bytes make_chunk(Compressor& compressor, ChunkFrame frame, std::span<const std::uint8_t> payload) {
    Bytes chunk(sizeof frame + Compressor::bound(payload.size()));
    const std::size_t size = compressor.compress(std::span(chunk).subspan(sizeof frame), payload);
    chunk.resize(sizeof frame + size);
    frame.raw_bytes = static_cast<std::uint32_t>(payload.size());
    frame.compressed_bytes = static_cast<std::uint32_t>(size);
    std::memcpy(chunk.data(), &frame, sizeof frame);
    frame.crc = crc32c(0, std::span(chunk).subspan(sizeof frame.crc));
    std::memcpy(chunk.data(), &frame, sizeof frame);
    return chunk;
}

}  // namespace

struct ThreadEncoder::State {
    TraceWriter& writer;
    std::uint32_t thread;
    std::uint64_t stamped = 0;  // instructions reached, perhaps not yet written
    detail::ChunkEncoder chunk;

    State(TraceWriter& w, std::uint32_t id) : writer(w), thread(id) {}

    void make_room() {
        if (!chunk.make_room()) flush();
    }
    void put(const Event& event) {
        make_room();
        chunk.put(event);
    }
    void stamp(std::uint64_t count) {
        stamped = std::max(stamped, count);
        if (stamped - chunk.instructions() >= stamp_grain) write_stamp();
    }
    void write_stamp() {
        if (stamped <= chunk.instructions()) return;
        make_room();
        chunk.stamp(stamped);
    }
    void flush() {
        chunk.end();
        if (!chunk.empty()) {
            ChunkFrame frame{};
            frame.type = static_cast<std::uint32_t>(ChunkType::events);
            frame.thread = thread;
            frame.events = chunk.events();
            frame.first_instruction = chunk.first_instruction();
            writer.write_events(frame, chunk.payload(),
                                chunk.instructions() - chunk.first_instruction());
        }
        chunk.restart();
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
void ThreadEncoder::stamp_now(std::uint64_t instructions) {
    state_->stamp(instructions);
    state_->write_stamp();
}

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
    if (!header.bound.empty()) add_field(ChunkType::header, Tag::bound, text_body(header.bound));
    if (!header.rank.empty()) add_field(ChunkType::header, Tag::rank, text_body(header.rank));
    if (!header.chosen.empty()) add_field(ChunkType::header, Tag::chosen, text_body(header.chosen));
    if (header.began != 0) add_field(ChunkType::header, Tag::began, varint_body({header.began}));
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
    if (!site.name.empty()) append_text(body, site.name);
    add_definition(Tag::call_site, body);
}

void TraceWriter::define(const FileDefinition& file) {
    add_definition(Tag::file, varint_body({file.number, file.device, file.inode}));
}

void TraceWriter::define(const PlaceDefinition& place) {
    Bytes body = varint_body({place.id});
    append_text(body, place.name);
    add_definition(Tag::place, body);
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

void TraceWriter::define(const CodeBlockDefinition& block) {
    Bytes body = varint_body({block.id, block.address});
    append_text(body, block.bytes);
    add_definition(Tag::code_block, body);
}

void TraceWriter::define(const InstructionSample& sample) {
    Bytes body = varint_body({sample.thread, sample.first_instruction, sample.phase,
                              sample.blocks.size(), sample.accesses.size()});
    std::uint64_t id = 0, place = 0, line = 0;
    for (const std::uint64_t block : sample.blocks)
        append_varint(body, zigzag(block - std::exchange(id, block)));
    for (const SampledAccess& access : sample.accesses) {
        append_varint(body, access.block - std::exchange(place, access.block));
        append_varint(body, access.instruction << 1 | std::uint64_t{access.store});
        append_varint(body, zigzag(access.line - std::exchange(line, access.line)));
    }
    add_definition(Tag::instruction_sample, body);
}

void TraceWriter::define(const WriterDefinition& writer) {
    Bytes body =
        varint_body({writer.id, writer.block, writer.instruction, writer.return_addresses.size()});
    for (const std::uint64_t address : writer.return_addresses) append_varint(body, address);
    add_definition(Tag::writer, body);
}

void TraceWriter::define(const FirstWrites& run) {
    add_definition(Tag::first_writes, varint_body({run.thread, run.first_instruction,
                                                   run.last_instruction - run.first_instruction,
                                                   run.writer, run.page, run.pages}));
}

void TraceWriter::warn(std::string_view text) { add_definition(Tag::warning, text_body(text)); }

TraceSummary TraceWriter::finish(TraceSummary summary, TraceEnd end) {
    for (const auto& [id, encoder] : encoders_) encoder->flush();
    const std::lock_guard lock(mutex_);
    if (error() == 0) write_fields();
    if (error() == 0) {
        if (const int failed = append_summary(summary, end); failed != 0) fail(failed);
    }
    const int why = error();
    if (why == ENOSPC || why == EDQUOT || why == EFBIG) summary = finish_cut(summary, end.time);
    if (const int closed = file_.close(); closed != 0) fail(closed);
    readable_ |= error() == 0;
    return summary;
}

int TraceWriter::append_summary(const TraceSummary& summary, TraceEnd end) {
    const auto add = [this](Tag tag, std::uint64_t value) {
        add_field(ChunkType::summary, tag, varint_body({value}));
    };
    add(Tag::instructions, summary.instructions);
    add(Tag::accesses, summary.accesses);
    if (summary.total_instructions) add(Tag::total_instructions, *summary.total_instructions);
    add(Tag::exit_status, zigzag(static_cast<std::uint64_t>(std::int64_t{summary.exit_status})));
    add_field(ChunkType::summary, Tag::end, end_body(end));
    return file_.append(end_of_fields());
}

// The last chunks make room until the summary fits. A trace without a chunk is of no use.
TraceSummary TraceWriter::finish_cut(TraceSummary summary, std::uint64_t time) {
    const TraceSummary whole = summary;
    const auto why = static_cast<std::uint64_t>(error());
    std::uint64_t end = bytes_written();
    for (; !chunks_.empty(); chunks_.pop_back()) {
        std::uint64_t held = 0;
        for (const WrittenChunk& chunk : chunks_) held += chunk.instructions;
        summary.instructions = std::min(held, whole.instructions);
        summary.accesses = in_proportion(whole.accesses, summary.instructions, whole.instructions);
        fields_.clear();
        if (file_.cut(end) != 0) break;
        readable_ = append_summary(summary, {EndKind::file, why, time}) == 0;
        if (readable_) return summary;
        end = chunks_.back().begin;
    }
    return whole;
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
    if (!fields_.empty()) append_to_file(end_of_fields());
}

std::vector<std::uint8_t> TraceWriter::end_of_fields() {
    ChunkFrame frame{};
    frame.type = static_cast<std::uint32_t>(fields_type_);
    return make_chunk(compressor_, frame, std::exchange(fields_, {}));
}

void TraceWriter::write_events(const ChunkFrame& frame, std::span<const std::uint8_t> payload,
                               std::uint64_t instructions) {
    if (error() != 0) return;
    const Bytes chunk = make_chunk(compressor_, frame, payload);  // compressed outside of the lock
    const std::lock_guard lock(mutex_);
    write_fields();
    const std::uint64_t begin = bytes_written();
    if (append_to_file(chunk)) chunks_.push_back({begin, instructions});
}

bool TraceWriter::append_to_file(std::span<const std::uint8_t> bytes) {
    if (error() != 0) return false;
    if (const int failed = file_.append(bytes); failed != 0) {
        fail(failed);
        return false;
    }
    bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
    return true;
}

int append_end(const std::string& path, std::uint64_t bytes, TraceEnd end) {
    const Bytes body = end_body(end);
    Bytes field = varint_body({static_cast<std::uint64_t>(Tag::end), body.size()});
    field.insert(field.end(), body.begin(), body.end());
    ChunkFrame frame{};
    frame.type = static_cast<std::uint32_t>(ChunkType::definitions);
    Compressor compressor;
    const Bytes chunk = make_chunk(compressor, frame, field);
    if (::truncate(path.c_str(), static_cast<::off_t>(bytes)) != 0) return errno;
    std::FILE* const file = std::fopen(path.c_str(), "ab");
    if (file == nullptr) return errno;
    const bool written = std::fwrite(chunk.data(), 1, chunk.size(), file) == chunk.size();
    return std::fclose(file) == 0 && written ? 0 : errno;
}

}  // namespace pagelens
