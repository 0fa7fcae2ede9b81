// Writes a trace file: one encoder a thread, compressed chunks appended under a lock.
//
// It is linked into DynamoRIO's client and QEMU's plugin. So it uses no Python, and no exception
// leaves it after construction. A failure (no disk space) is kept: the first errno is `error()`,
// and later calls do nothing. Everything is in the stream: a file cut anywhere is whole up to its
// last whole chunk. Where the disk or a limit was full, finish() cuts the file there and adds a
// summary of what it holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/accesses/compressor.hpp"
#include "core/accesses/event.hpp"
#include "core/accesses/output_file.hpp"
#include "core/accesses/trace_format.hpp"

namespace pagelens {

class TraceWriter;

// Instructions: some microseconds of a core, below which the order of threads between their syncs
// is no property of the program.
inline constexpr std::uint64_t stamp_grain = 1u << 15;

// Turns the events of one thread into bytes. Used by one thread at a time (any thread); encoders of
// different threads may run at the same time.
class ThreadEncoder {
  public:
    ThreadEncoder(TraceWriter& writer, std::uint32_t thread);
    ~ThreadEncoder();
    ThreadEncoder(const ThreadEncoder&) = delete;
    ThreadEncoder& operator=(const ThreadEncoder&) = delete;

    void put(const Event& event);
    void put(std::span<const Event> events);

    // Says that what follows happened at or after `instructions` of this thread. The number never
    // decreases, and a smaller one counts as no progress. Threads are merged at the grain of the
    // stamps. Of stamps closer than stamp_grain, only the last before a flush is written. Stamp
    // once at the thread's end.
    void stamp(std::uint64_t instructions);
    void stamp_now(std::uint64_t instructions);  // is written in any case

    // Compresses and writes what is pending. Done by itself when the chunk is full.
    void flush();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

class TraceWriter {
  public:
    // Creates `path` (give NAME.partial and rename when the run is over). Throws std::system_error
    // if it cannot be created.
    TraceWriter(const std::string& path, const TraceHeader& header);
    ~TraceWriter();  // closes; what was not flushed is not written
    TraceWriter(const TraceWriter&) = delete;
    TraceWriter& operator=(const TraceWriter&) = delete;

    // The encoder of thread `id`, made on first use; valid as long as the writer. Thread-safe.
    ThreadEncoder& thread(std::uint32_t id);

    // Thread `id` is over: what its encoder held is written, and the encoder gone. The id may be
    // used again. Thread-safe.
    void end_thread(std::uint32_t id);

    // Thread-safe. A definition reaches the file before any event put after it.
    void define(const ModuleDefinition& module);
    void define(const CallSiteDefinition& site);
    void define(const PhaseDefinition& phase);
    void define(const FileDefinition& file);
    void define(const PlaceDefinition& place);
    void define(const RegionDefinition& region);
    void define(const CodeBlockDefinition& block);
    void define(const InstructionSample& sample);
    void define(const WriterDefinition& writer);
    void define(const FirstWrites& run);
    void warn(std::string_view text);

    // Flushes every encoder, writes the summary and closes. No encoder may be in use. Returns the
    // summary as it was written: of a trace that was cut, its accesses are in proportion to the
    // instructions. `end` is what ended the recording, if the file could grow up to there.
    TraceSummary finish(TraceSummary summary, TraceEnd end = {});

    // Returns whether the file is whole, or was cut and then finished.
    [[nodiscard]] bool readable() const { return readable_; }

    // Call this in a forked child. It forgets the file without writing to it, and the writer does
    // nothing afterwards.
    void abandon();

    [[nodiscard]] int error() const {
        return error_.load(std::memory_order_relaxed);
    }  // errno or 0
    [[nodiscard]] std::uint64_t bytes_written() const {
        return bytes_.load(std::memory_order_relaxed);
    }

  private:
    friend class ThreadEncoder;
    void add_definition(Tag tag, const std::vector<std::uint8_t>& body);
    void write_events(const ChunkFrame& frame, std::span<const std::uint8_t> payload,
                      std::uint64_t instructions);
    void fail(int error);
    // Call these functions with the lock held.
    void add_field(ChunkType type, Tag tag, const std::vector<std::uint8_t>& body);
    void write_fields();
    std::vector<std::uint8_t> end_of_fields();  // the chunk of those that wait
    bool append_to_file(std::span<const std::uint8_t> bytes);
    int append_summary(const TraceSummary& summary, TraceEnd end);
    TraceSummary finish_cut(TraceSummary summary, std::uint64_t time);

    // A chunk of events in the file.
    struct WrittenChunk {
        std::uint64_t begin, instructions;
    };

    std::mutex mutex_;  // guards the file, the fields and the map of encoders
    OutputFile file_;
    Compressor compressor_;
    std::atomic<int> error_{0};
    std::atomic<std::uint64_t> bytes_{0};
    bool readable_ = false;
    std::vector<WrittenChunk> chunks_;
    std::vector<std::uint8_t> fields_;  // definitions not yet in the file
    ChunkType fields_type_ = ChunkType::header;
    std::map<std::uint32_t, std::unique_ptr<ThreadEncoder>> encoders_;
};

// Says why the end of a trace is missing: cuts the file behind its last whole chunk, at `bytes`,
// and appends a chunk with `end`. Returns errno or 0.
int append_end(const std::string& path, std::uint64_t bytes, TraceEnd end);

}  // namespace pagelens
