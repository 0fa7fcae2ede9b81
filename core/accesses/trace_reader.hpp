// Reads a trace file, trusting nothing in it.
//
// Opening walks the chunks once (frames and checksums), so that a thread's stream can then be read
// in pieces, at any time and by any thread, in bounded memory: one chunk a stream. A file that is
// cut or damaged is read up to the first chunk that is not whole; `damage()` says where and why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/trace_format.hpp"

namespace pagelens {

// A fault of the file and the byte where it shows.
struct TraceFault {
    std::uint64_t position = 0;
    std::string what;
};

// The file as a whole cannot be used; what() says why and what to do, without the file's name.
class TraceError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace detail {
class TraceFile;
class EventDecoder;
}  // namespace detail

// The events of one thread in their order; holds one chunk in memory. Independent of other streams
// and of the reader that opened it.
class ThreadStream {
  public:
    struct Batch {
        std::uint64_t instructions = 0;  // the thread's count that the events follow ...
        std::uint64_t until = 0;         // ... and the one that is reached after them
        std::span<const Event> events;   // valid until the next call; a phase or a sync comes last
    };

    ThreadStream(std::shared_ptr<const detail::TraceFile> file,
                 std::shared_ptr<const std::vector<std::uint64_t>> chunk_positions,
                 LineSets touched);
    ~ThreadStream();
    ThreadStream(ThreadStream&&) noexcept;
    ThreadStream& operator=(ThreadStream&&) noexcept;

    // The next events (a few thousand at most, or none) up to a stamp, phase or sync; no batch
    // after the last.
    std::optional<Batch> next();

    // Is set if the stream ended early, by a fault that the file's checksums do not show.
    [[nodiscard]] const std::optional<TraceFault>& fault() const;

  private:
    std::unique_ptr<detail::EventDecoder> decoder_;
};

// A variable of static storage. Not in the file: whoever reads the symbols knows it.
struct StaticVariable {
    std::uint64_t start;
    std::uint64_t size;  // bytes
};

// Immutable once open and given its variables.
class TraceReader {
  public:
    // Throws TraceError if `path` cannot be read, is no trace, is newer than this reader, or has no
    // whole header.
    explicit TraceReader(const std::string& path);

    // Objects of their own from now on, where they are not part of their module's data.
    void set_variables(std::vector<StaticVariable> variables) { variables_ = std::move(variables); }
    [[nodiscard]] const std::vector<StaticVariable>& variables() const { return variables_; }

    // Makes each of these sites one object with the other, which is not itself among them.
    void group_call_sites(const std::unordered_map<std::uint64_t, std::uint64_t>& groups) {
        for (CallSiteDefinition& site : call_sites_)
            if (const auto with = groups.find(site.id); with != groups.end())
                site.object = with->second;
    }

    [[nodiscard]] const TraceHeader& header() const { return header_; }
    [[nodiscard]] const std::optional<TraceSummary>& summary() const { return summary_; }
    // What ended the recording. It is unknown in a trace of an older version, and in one whose end
    // is missing unless somebody appended it.
    [[nodiscard]] const std::optional<TraceEnd>& end() const { return end_; }
    [[nodiscard]] const std::vector<ModuleDefinition>& modules() const { return modules_; }
    [[nodiscard]] const std::vector<CallSiteDefinition>& call_sites() const { return call_sites_; }
    [[nodiscard]] const std::vector<PhaseDefinition>& phases() const { return phases_; }
    [[nodiscard]] const std::vector<FileDefinition>& files() const { return files_; }
    [[nodiscard]] const std::vector<PlaceDefinition>& places() const { return places_; }
    [[nodiscard]] const std::vector<RegionDefinition>& regions() const { return regions_; }
    // Is empty if the tracer took no samples.
    [[nodiscard]] const std::vector<CodeBlockDefinition>& code_blocks() const {
        return code_blocks_;
    }
    [[nodiscard]] const std::vector<InstructionSample>& samples() const { return samples_; }
    [[nodiscard]] const std::vector<WriterDefinition>& writers() const { return writers_; }
    // Those of each thread are in the order of time.
    [[nodiscard]] const std::vector<FirstWrites>& first_writes() const { return first_writes_; }
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
    [[nodiscard]] std::uint64_t event_bytes() const { return event_bytes_; }  // uncompressed

    // The place where reading stopped, if that is before the end of a complete file.
    [[nodiscard]] const std::optional<TraceFault>& damage() const { return damage_; }

    // Threads in the order of their first chunk; their ids as the tracer gave them.
    [[nodiscard]] std::span<const std::uint32_t> threads() const { return threads_; }
    // `thread` is an index into threads(). Touches of lines in other sets than `touched` are left
    // out if the file tells them by their place. These are half of all events, which a caller
    // without caches does not need.
    [[nodiscard]] ThreadStream stream(std::size_t thread, LineSets touched = all_line_sets) const;

  private:
    void scan();
    bool take_fields(ChunkType type, std::span<const std::uint8_t> payload);
    bool take_field(std::uint64_t tag, std::span<const std::uint8_t> body);

    std::shared_ptr<const detail::TraceFile> file_;
    std::uint64_t file_bytes_ = 0;
    std::uint64_t event_bytes_ = 0;
    TraceHeader header_;
    std::optional<TraceSummary> summary_;
    std::optional<TraceEnd> end_;
    std::vector<ModuleDefinition> modules_;
    std::vector<CallSiteDefinition> call_sites_;
    std::vector<PhaseDefinition> phases_;
    std::vector<FileDefinition> files_;
    std::vector<PlaceDefinition> places_;
    std::vector<RegionDefinition> regions_;
    std::vector<CodeBlockDefinition> code_blocks_;
    std::vector<InstructionSample> samples_;
    std::vector<WriterDefinition> writers_;
    std::vector<FirstWrites> first_writes_;
    std::vector<StaticVariable> variables_;
    std::vector<std::string> warnings_;
    std::optional<TraceFault> damage_;
    std::vector<std::uint32_t> threads_;
    std::vector<std::shared_ptr<std::vector<std::uint64_t>>> chunks_;  // positions, of each thread
};

}  // namespace pagelens
