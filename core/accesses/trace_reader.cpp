#include "core/accesses/trace_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "core/accesses/crc32c.hpp"
#include "core/accesses/event_decoder.hpp"
#include "core/accesses/varint.hpp"

namespace pagelens {

namespace detail {

// The file, read by position, so that any number of streams may share it.
class TraceFile {
  public:
    explicit TraceFile(const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        struct stat status{};
        if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail(errno);
        if (!S_ISREG(status.st_mode)) fail(S_ISDIR(status.st_mode) ? EISDIR : ESPIPE);
        size_ = static_cast<std::uint64_t>(status.st_size);
    }
    ~TraceFile() { ::close(descriptor_); }
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;

    [[nodiscard]] std::uint64_t size() const { return size_; }

    // Returns false if the file has fewer bytes there. It may have shrunk since it was opened.
    bool read(std::uint64_t position, std::span<std::uint8_t> to) const {
        while (!to.empty()) {
            const ::ssize_t count =
                ::pread(descriptor_, to.data(), to.size(), static_cast<::off_t>(position));
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return false;
            to = to.subspan(static_cast<std::size_t>(count));
            position += static_cast<std::uint64_t>(count);
        }
        return true;
    }

  private:
    [[noreturn]] void fail(int error) {
        if (descriptor_ >= 0) ::close(descriptor_);
        throw TraceError(std::string(std::strerror(error)) + "; check the path");
    }

    int descriptor_;
    std::uint64_t size_ = 0;
};

namespace {

// Reads chunks: frame, sizes, checksum, payload. Keeps its two buffers from chunk to chunk.
class ChunkReader {
  public:
    // The frame at `position`, its compressed payload read and its checksum good. Null and a reason
    // in `what` otherwise.
    std::optional<ChunkFrame> open(const TraceFile& file, std::uint64_t position) {
        std::array<std::uint8_t, sizeof(ChunkFrame)> bytes{};
        if (!file.read(position, bytes)) return fault("the file ends within a chunk");
        const auto frame = std::bit_cast<ChunkFrame>(bytes);
        if (frame.raw_bytes > chunk_raw_limit ||
            frame.compressed_bytes > ZSTD_compressBound(chunk_raw_limit))
            return fault("a chunk states an impossible size");
        compressed_.resize(frame.compressed_bytes);
        if (!file.read(position + sizeof frame, compressed_))
            return fault("the file ends within a chunk");
        constexpr std::size_t covered = sizeof frame.crc;
        if (crc32c(crc32c(0, std::span(bytes).subspan(covered)), compressed_) != frame.crc)
            return fault("the checksum of a chunk is wrong");
        return frame;
    }

    // The payload of the chunk opened last; valid until the next call.
    std::optional<std::span<const std::uint8_t>> payload(const ChunkFrame& frame) {
        raw_.resize(frame.raw_bytes);
        // One context a host thread: streams are many and take turns.
        static thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(
            ZSTD_createDCtx(), &ZSTD_freeDCtx);
        const std::size_t size = ZSTD_decompressDCtx(context.get(), raw_.data(), raw_.size(),
                                                     compressed_.data(), compressed_.size());
        if (ZSTD_isError(size) != 0 || size != raw_.size()) {
            what = "a chunk does not decompress to its stated size";
            return std::nullopt;
        }
        return raw_;
    }

    std::string what;

  private:
    std::nullopt_t fault(const char* reason) {
        what = reason;
        return std::nullopt;
    }
    std::vector<std::uint8_t> compressed_;
    std::vector<std::uint8_t> raw_;
};

}  // namespace

class EventDecoder {
  public:
    EventDecoder(std::shared_ptr<const TraceFile> file,
                 std::shared_ptr<const std::vector<std::uint64_t>> chunks, LineSets touched)
        : file_(std::move(file)), chunks_(std::move(chunks)), touched_(touched) {}

    std::optional<ThreadStream::Batch> next() {
        if (fault) return std::nullopt;
        if (chunk_.at_end()) {
            if (next_chunk_ == chunks_->size() || !open_chunk()) return std::nullopt;
        }
        ThreadStream::Batch batch;
        batch.instructions = chunk_.instructions();
        const std::size_t count = chunk_.decode(events_);
        if (!chunk_.ok()) {
            fault = TraceFault{(*chunks_)[next_chunk_ - 1], "an event cannot be decoded, at byte " +
                                                                std::to_string(chunk_.position()) +
                                                                " of its codes"};
        }
        batch.until = chunk_.instructions();
        batch.events = std::span(events_).first(count);
        return batch;
    }

    std::optional<TraceFault> fault;

  private:
    bool open_chunk() {
        const std::uint64_t position = (*chunks_)[next_chunk_++];
        const auto frame = reader_.open(*file_, position);
        const auto payload = frame ? reader_.payload(*frame) : std::nullopt;
        if (!payload) {
            fault = TraceFault{position, reader_.what};
            return false;
        }
        chunk_ = ChunkDecoder(*payload, frame->first_instruction, touched_);
        events_.resize(
            std::min<std::size_t>(batch_events, payload->size() + SetHistory::depth + 1));
        return true;
    }

    std::shared_ptr<const TraceFile> file_;
    std::shared_ptr<const std::vector<std::uint64_t>> chunks_;
    LineSets touched_;
    std::size_t next_chunk_ = 0;
    ChunkReader reader_;
    ChunkDecoder chunk_;
    static constexpr std::size_t batch_events = 2048;
    std::vector<Event> events_;
};

}  // namespace detail

namespace {

constexpr std::size_t threads_limit = 4096;                     // an op has 12 bits for them
constexpr std::uint64_t fields_limit = std::uint64_t{1} << 28;  // of all definitions together

std::string text(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }
std::string text(ByteReader& from) { return text(from.bytes(from.varint())); }

CacheShape shape(ByteReader& from) {
    const std::uint64_t sets = from.varint();
    const std::uint64_t ways = from.varint();
    constexpr std::uint64_t limit = 1u << 30;
    return {static_cast<std::uint32_t>(std::min(sets, limit)),
            static_cast<std::uint32_t>(std::min(ways, limit))};
}

// Accesses of blocks that the sample does not have are left out.
InstructionSample sample(ByteReader& from) {
    InstructionSample read;
    read.thread = from.varint();
    read.first_instruction = from.varint();
    read.phase = from.varint();
    const std::uint64_t blocks = from.varint();
    const std::uint64_t accesses = from.varint();
    std::uint64_t id = 0, place = 0, line = 0;
    for (std::uint64_t i = 0; i < blocks && from.ok(); ++i) {
        id += static_cast<std::uint64_t>(from.signed_varint());
        read.blocks.push_back(id);
    }
    for (std::uint64_t i = 0; i < accesses && from.ok(); ++i) {
        place += from.varint();
        const std::uint64_t code = from.varint();
        line += static_cast<std::uint64_t>(from.signed_varint());
        if (place < read.blocks.size())
            read.accesses.push_back({place, code >> 1, (code & 1) != 0, line});
    }
    return read;
}

}  // namespace

ThreadStream::ThreadStream(std::shared_ptr<const detail::TraceFile> file,
                           std::shared_ptr<const std::vector<std::uint64_t>> chunks,
                           LineSets touched)
    : decoder_(
          std::make_unique<detail::EventDecoder>(std::move(file), std::move(chunks), touched)) {}
ThreadStream::~ThreadStream() = default;
ThreadStream::ThreadStream(ThreadStream&&) noexcept = default;
ThreadStream& ThreadStream::operator=(ThreadStream&&) noexcept = default;

std::optional<ThreadStream::Batch> ThreadStream::next() { return decoder_->next(); }
const std::optional<TraceFault>& ThreadStream::fault() const { return decoder_->fault; }

TraceReader::TraceReader(const std::string& path)
    : file_(std::make_shared<detail::TraceFile>(path)), file_bytes_(file_->size()) {
    std::array<std::uint8_t, trace_preamble_bytes> preamble{};
    if (!file_->read(0, preamble) ||
        !std::equal(trace_magic.begin(), trace_magic.end(), preamble.begin()))
        throw TraceError("the file is not a trace; give one written by `pagelens trace`");
    std::uint32_t version = 0;
    std::memcpy(&version, preamble.data() + trace_magic.size(), sizeof version);
    if (version != trace_version)
        throw TraceError("the trace has format version " + std::to_string(version) +
                         ", this pagelens reads " + std::to_string(trace_version) +
                         "; use the pagelens that wrote it, or trace again");
    scan();
}

ThreadStream TraceReader::stream(std::size_t thread, LineSets touched) const {
    return ThreadStream(file_, chunks_.at(thread), touched);
}

void TraceReader::scan() {
    detail::ChunkReader chunks;
    std::unordered_map<std::uint32_t, std::size_t> index;  // thread id -> index
    std::uint64_t fields = 0;                              // bytes
    std::uint64_t position = trace_preamble_bytes;
    std::string fault;
    bool has_header = false;
    while (position < file_bytes_) {
        const auto frame = chunks.open(*file_, position);
        if (!frame) {
            fault = chunks.what;
            break;
        }
        const auto type = static_cast<ChunkType>(frame->type);
        if (!has_header && type != ChunkType::header) {
            fault = "the header is missing";
            break;
        }
        if (type == ChunkType::events) {
            if (threads_.size() == threads_limit && !index.contains(frame->thread)) {
                fault = "there are more than " + std::to_string(threads_limit) + " threads";
                break;
            }
            const auto [place, is_new] = index.try_emplace(frame->thread, threads_.size());
            if (is_new) {
                threads_.push_back(frame->thread);
                chunks_.push_back(std::make_shared<std::vector<std::uint64_t>>());
            }
            chunks_[place->second]->push_back(position);
            event_bytes_ += frame->raw_bytes;
        } else if (type >= ChunkType::header && type <= ChunkType::summary) {
            fields += frame->raw_bytes;
            const auto payload = chunks.payload(*frame);
            if (!payload || fields > fields_limit || !take_fields(type, *payload)) {
                fault = payload ? "a definition cannot be decoded" : chunks.what;
                break;
            }
            has_header = true;
        }
        position += sizeof(ChunkFrame) + frame->compressed_bytes;
    }
    if (fault.empty() && !summary_) fault = "the end of the trace is missing";
    if (!fault.empty()) damage_ = TraceFault{position, fault};
    if (!has_header) throw TraceError(fault + "; trace the program again");
}

bool TraceReader::take_fields(ChunkType type, std::span<const std::uint8_t> payload) {
    if (type == ChunkType::summary && !summary_) summary_.emplace();
    ByteReader fields(payload);
    while (!fields.at_end()) {
        const std::uint64_t tag = fields.varint();
        const auto body = fields.bytes(fields.varint());
        if (!fields.ok() || !take_field(tag, body)) return false;
    }
    return true;
}

// An unknown tag is of a later version that only added it.
bool TraceReader::take_field(std::uint64_t tag, std::span<const std::uint8_t> body) {
    if (tag > static_cast<std::uint64_t>(Tag::first_writes)) return true;
    const bool of_summary =
        static_cast<Tag>(tag) >= Tag::instructions && static_cast<Tag>(tag) <= Tag::exit_status;
    if (of_summary && !summary_) return false;
    ByteReader from(body);
    switch (static_cast<Tag>(tag)) {
        case Tag::producer:
            header_.producer = text(body);
            break;
        case Tag::program:
            header_.program = text(body);
            break;
        case Tag::argument:
            header_.arguments.push_back(text(body));
            break;
        case Tag::exact_for:
            header_.exact_for.push_back(shape(from));
            break;
        case Tag::page_filter:
            header_.page_filter = shape(from);
            break;
        case Tag::module: {
            ModuleDefinition& module = modules_.emplace_back();
            module.path = text(from);
            module.build_id = text(from);
            for (std::uint64_t* value : {&module.base, &module.start, &module.size})
                *value = from.varint();
            // The first tracers did not state this.
            const std::uint64_t ranges = from.at_end() ? 0 : from.varint();
            for (std::uint64_t i = 0; i < ranges && from.ok(); ++i) {
                ByteRange& range = module.file_backed.emplace_back();
                range.start = module.start + from.varint();
                range.size = from.varint();
            }
            break;
        }
        case Tag::call_site: {
            CallSiteDefinition& site = call_sites_.emplace_back();
            site.id = from.varint();
            const std::uint64_t frames = from.varint();
            for (std::uint64_t i = 0; i < frames && from.ok(); ++i)
                site.return_addresses.push_back(from.varint());
            if (!from.at_end()) site.name = text(from);  // the tracer states none
            break;
        }
        case Tag::phase: {
            const std::uint64_t id = from.varint();
            phases_.push_back({id, text(from)});
            break;
        }
        case Tag::place: {
            const std::uint64_t id = from.varint();
            places_.push_back({id, text(from)});
            break;
        }
        case Tag::region: {
            const std::uint64_t kind = from.varint();
            const std::uint64_t start = from.varint();
            const std::uint64_t size = from.varint();
            if (kind <= static_cast<std::uint64_t>(RegionKind::stack))
                regions_.push_back({static_cast<RegionKind>(kind), start, size});
            break;
        }
        case Tag::code_block: {
            CodeBlockDefinition& block = code_blocks_.emplace_back();
            block.id = from.varint();
            block.address = from.varint();
            block.bytes = text(from);
            break;
        }
        case Tag::file: {
            FileDefinition& file = files_.emplace_back();
            for (std::uint64_t* value : {&file.number, &file.device, &file.inode})
                *value = from.varint();
            break;
        }
        case Tag::bound:
            header_.bound = text(body);
            break;
        case Tag::rank:
            header_.rank = text(body);
            break;
        case Tag::chosen:
            header_.chosen = text(body);
            break;
        case Tag::began:
            header_.began = from.varint();
            break;
        case Tag::end: {
            const std::uint64_t kind = from.varint();
            const std::uint64_t detail = from.varint();
            const std::uint64_t time = from.at_end() ? 0 : from.varint();  // older ones have none
            if (kind <= static_cast<std::uint64_t>(EndKind::memory))
                end_ = TraceEnd{static_cast<EndKind>(kind), detail, time};
            break;
        }
        case Tag::instruction_sample:
            samples_.push_back(sample(from));
            break;
        case Tag::writer: {
            WriterDefinition& writer = writers_.emplace_back();
            for (std::uint64_t* value : {&writer.id, &writer.block, &writer.instruction})
                *value = from.varint();
            const std::uint64_t callers = from.varint();
            for (std::uint64_t i = 0; i < callers && from.ok(); ++i)
                writer.return_addresses.push_back(from.varint());
            break;
        }
        case Tag::first_writes: {
            FirstWrites& run = first_writes_.emplace_back();
            for (std::uint64_t* value : {&run.thread, &run.first_instruction, &run.last_instruction,
                                         &run.writer, &run.page, &run.pages})
                *value = from.varint();
            run.last_instruction += run.first_instruction;
            break;
        }
        case Tag::warning:
            warnings_.push_back(text(body));
            break;
        case Tag::instructions:
            summary_->instructions = from.varint();
            break;
        case Tag::accesses:
            summary_->accesses = from.varint();
            break;
        case Tag::total_instructions:
            summary_->total_instructions = from.varint();
            break;
        case Tag::exit_status:
            summary_->exit_status = static_cast<std::int32_t>(from.signed_varint());
            break;
        default:
            break;
    }
    return from.ok();
}

}  // namespace pagelens
