// The trace file: what writer and reader share. docs/trace-format.md is the specification; this
// header is its table of numbers. Little-endian; versions only ever add.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagelens {

inline constexpr std::array<std::uint8_t, 8> trace_magic{0x89, 'P',  'L',  'T',
                                                         'R',  '\r', '\n', 0x1a};
inline constexpr std::uint32_t trace_version = 2;
inline constexpr std::size_t trace_preamble_bytes = trace_magic.size() + 4;  // magic, version

// A cache shape; as a family: every LRU cache with at least these sets and at least these ways,
// whose set index contains address bits 6 .. 6 + log2(sets) - 1.
struct CacheShape {
    std::uint32_t sets = 0;
    std::uint32_t ways = 0;
    friend bool operator==(const CacheShape&, const CacheShape&) = default;
};

// First chunk of the file: what may be concluded from it, and where it comes from.
struct TraceHeader {
    std::vector<CacheShape> exact_for;  // families for which fetches and write-backs are exact
    CacheShape page_filter;             // page uses hidden: hits of this shape (sets of pages)
    std::string producer;               // name and version of the tracer
    std::string program;
    std::vector<std::string> arguments;
    // Where the process could run when it was traced, as four lists of numbers: its CPUs, all CPUs,
    // the NUMA nodes of its CPUs, and those of all CPUs. Unknown if empty.
    std::string bound{};
    std::string rank{};       // its number in its MPI job; empty if it has none
    std::string chosen{};     // the options that chose a part of the run; empty if none did
    std::uint64_t began = 0;  // when: nanoseconds since 1970; 0: unknown
};

// Why nothing more was recorded.
enum class EndKind : std::uint8_t {
    program,  // it ran to its end
    budget,   // the accesses that were asked for are in the trace
    file,     // it could not grow
    signal,   // one ended the program
    memory,   // the kernel ended the program because memory was full
};

struct TraceEnd {
    EndKind kind = EndKind::program;
    std::uint64_t detail = 0;  // budget: accesses; file: errno; signal: its number, 0 if unknown
    std::uint64_t time = 0;    // nanoseconds since 1970; 0: unknown
    friend bool operator==(const TraceEnd&, const TraceEnd&) = default;
};

// Last chunk of a complete file.
struct TraceSummary {
    std::uint64_t instructions = 0;                   // seen, over all threads
    std::uint64_t accesses = 0;                       // data accesses of work, before the filter
    std::optional<std::uint64_t> total_instructions;  // of the whole run, where it is known
    std::int32_t exit_status = 0;                     // as a shell states it: 128 + n for signal n
};

struct ByteRange {
    std::uint64_t start = 0;
    std::uint64_t size = 0;
    friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Definitions stand in the file before the first event that uses them.
struct ModuleDefinition {
    std::string path;
    std::string build_id;     // raw bytes, empty if the file has none
    std::uint64_t base = 0;   // load bias: address in memory = base + address in the file
    std::uint64_t start = 0;  // first byte mapped
    std::uint64_t size = 0;   // bytes mapped from `start`
    // Whole pages of these that show the file, by address; the others are .bss. Unknown if empty.
    std::vector<ByteRange> file_backed;
};

struct CallSiteDefinition {
    std::uint64_t id = 0;                         // not 0
    std::vector<std::uint64_t> return_addresses;  // innermost first, allocator frames stripped
    std::string name{};  // where there are no addresses to look up: of memory in imported traces
    std::uint64_t object = 0;  // the id of the site that it is one object with; 0: its own
};

struct PhaseDefinition {
    std::uint64_t id = 0;  // not 0: that is "before any marker"
    std::string name;
};

// A file whose pages the program mapped. Its pages are numbered from `number` << file_bits on.
struct FileDefinition {
    std::uint64_t number = 0;
    std::uint64_t device = 0, inode = 0;  // what the kernel knows it by, until the machine restarts
};
inline constexpr unsigned file_bits = 36;  // of the number of a page in its file: up to 256 TiB
// Added to the number of a page of the page cache where the mapping is shared (MAP_SHARED): what
// the program writes there goes to the file's page.
inline constexpr std::uint64_t shared_mapping = std::uint64_t{1} << 63;

// A place where some ranks of a job meet (meeting.hpp). All of them give it the same name.
struct PlaceDefinition {
    std::uint64_t id = 0;  // below 2^32
    std::string name;
};

enum class RegionKind : std::uint8_t { heap, stack };  // heap: the brk area

// Memory without a call site. A later region wins over an earlier one where they overlap.
struct RegionDefinition {
    RegionKind kind = RegionKind::heap;
    std::uint64_t start = 0;
    std::uint64_t size = 0;
};

// Instructions that the program executes one after the other, at most up to a branch.
struct CodeBlockDefinition {
    std::uint64_t id = 0;  // not 0
    std::uint64_t address = 0;
    std::string bytes;  // of all its instructions
};

// An access of a sample that a small cache (the tracer's first filter) did not have.
struct SampledAccess {
    std::uint64_t block = 0;        // index in `InstructionSample::blocks`
    std::uint64_t instruction = 0;  // index in that block
    bool store = false;
    std::uint64_t line = 0;
    friend bool operator==(const SampledAccess&, const SampledAccess&) = default;
};

// An instruction that writes pages first, and who called it.
struct WriterDefinition {
    std::uint64_t id = 0;                         // from 1 on
    std::uint64_t block = 0;                      // id of its CodeBlockDefinition
    std::uint64_t instruction = 0;                // index in that block
    std::vector<std::uint64_t> return_addresses;  // innermost first, the nearest callers only
};

// Pages that a thread wrote first, one after the other, by one instruction.
struct FirstWrites {
    std::uint64_t thread = 0;
    std::uint64_t first_instruction = 0, last_instruction = 0;  // the thread's count
    std::uint64_t writer = 0;                                   // id of its WriterDefinition
    std::uint64_t page = 0, pages = 0;                          // the first one, and how many
};

// The instructions and accesses of a thread for a while.
struct InstructionSample {
    std::uint64_t thread = 0;
    std::uint64_t first_instruction = 0;  // the thread's count where it begins
    std::uint64_t phase = 0;              // 0: before any marker
    std::vector<std::uint64_t> blocks;    // ids, in the order of execution; 0: unknown
    std::vector<SampledAccess> accesses;  // in the order of `block`
};

// --- chunks ---------------------------------------------------------------------------------
enum class ChunkType : std::uint8_t {
    header = 1,
    definitions = 2,
    summary = 4,  // 3 was of version 1, which was never released
    events = 5,
};

struct ChunkFrame {     // 32 bytes in the file, in this order
    std::uint32_t crc;  // CRC-32C of the rest of the frame and of the compressed payload
    std::uint32_t type;
    std::uint32_t thread;  // events: thread id; otherwise 0
    std::uint32_t raw_bytes;
    std::uint32_t compressed_bytes;   // one zstd frame
    std::uint32_t events;             // number of events
    std::uint64_t first_instruction;  // the thread's instruction count before the first event
};
static_assert(sizeof(ChunkFrame) == 32);

inline constexpr std::uint32_t chunk_raw_limit = 1u << 18;  // payloads are never larger than this

// --- events in a chunk ------------------------------------------------------------------------
// A line event that is the next of stream k (same kind, `line` + stride) is the byte k. The rest is
// a code and varints (LEB128; signed ones zigzag). A payload has two parts, because each repeats
// itself more often than both mixed: the length of the codes, the codes, the touches.
inline constexpr unsigned predictor_streams = 64;
enum EventCode : std::uint8_t {
    code_next = 0,     // + k: stream k goes on
    code_jump = 64,    // + k, signed: stream k goes on at its prediction + signed (not 0)
    code_line = 128,   // + EventKind (read .. page_touch), signed distance to the line that the
                       // last such code of that kind gave: a new stream
    code_event = 136,  // + EventKind (page_read .. advise) and its fields, see docs/trace-format.md
    code_stamp = 160,  // unsigned: the thread's instruction count grew by so much
    // The touches: those right before each line event in the history of its set, 8 at most, and 0.
    code_touch = 168,   // + place (0 to 6): one of the line at this place
    code_oldest = 175,  // + n - 1: n of the line at place 7, each time the one that is there then
};
inline constexpr std::uint8_t touches_end = 0;

// --- definitions, header, summary: tag, length, bytes; unknown tags are skipped -----------------
enum class Tag : std::uint8_t {
    producer = 1,
    program,
    argument,
    exact_for,
    page_filter,  // header
    module,
    call_site,
    phase,
    region,
    warning,  // definitions
    instructions,
    accesses,
    total_instructions,
    exit_status,  // summary
    code_block,
    instruction_sample,
    file,  // definitions
    bound,
    rank,   // header
    place,  // definitions
    end,    // summary
    chosen,
    began,  // header
    writer,
    first_writes,  // definitions
};

}  // namespace pagelens
