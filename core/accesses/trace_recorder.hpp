// Writes a trace file from a list of accesses: what an importer of another tool's traces needs.
//
// It filters as the tracer does (strip.hpp, filter.hpp), so the file is an ordinary one: fetches
// and dirty write-backs of the caches that its header names are exact.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/accesses/filter.hpp"
#include "core/accesses/strip.hpp"
#include "core/accesses/trace_writer.hpp"

namespace pagelens {

// Accesses of one thread in their order. The spans after `addresses` hold a value for each access,
// or one value for all.
struct AccessBatch {
    std::span<const std::uint64_t> addresses;
    std::span<const std::uint32_t> sizes;         // bytes; an access may cross lines
    std::span<const bool> stores;                 // otherwise it is a load
    std::span<const std::uint32_t> instructions;  // executed since the access before, with this one
};

// Any thread of the host may call any function. A thread of the program begins with its first use.
// Functions throw std::invalid_argument for what cannot be recorded, and TraceError where the file
// cannot be written.
class TraceRecorder {
  public:
    struct Options {
        std::string producer;
        std::string program;
        std::vector<std::string> arguments;
        bool any_tlb = false;  // page uses are exact for all TLBs of 4 ways and more; a larger file
        // The program had its pages before the trace began, so those that it only reads have
        // frames. Otherwise such a page is the kernel's page of zeros.
        bool pages_exist = false;
    };

    // Creates PATH.partial.
    TraceRecorder(std::string path, const Options& options);
    ~TraceRecorder();  // discards what was not closed
    TraceRecorder(const TraceRecorder&) = delete;
    TraceRecorder& operator=(const TraceRecorder&) = delete;

    // Records a whole batch or, where one of its accesses cannot be, nothing of it.
    void access(std::uint32_t thread, const AccessBatch& batch);
    // Instructions that access no memory.
    void execute(std::uint32_t thread, std::uint64_t instructions);

    // A block of memory; all blocks of one name are one object.
    void allocate(std::uint32_t thread, std::uint64_t address, std::uint64_t bytes,
                  std::string_view name);
    void free(std::uint32_t thread, std::uint64_t address);
    // The pages that lie wholly in this memory lose their frames.
    void unmap(std::uint32_t thread, std::uint64_t address, std::uint64_t bytes);
    // The pages that this memory touches show a file of this name from byte `offset` on, which is
    // at the beginning of a page.
    void map_file(std::uint32_t thread, std::uint64_t address, std::uint64_t bytes,
                  std::string_view name, std::uint64_t offset);

    // The thread enters a phase of this name; an empty name ends the last one.
    void phase(std::uint32_t thread, std::string_view name);
    // What the thread does from here on comes after what other threads did before their last sync.
    // Between syncs, threads are merged by their instruction counts.
    void sync(std::uint32_t thread);
    // The thread waits for other processes, until go_on(): what it executes there is no work. If
    // none of so many processes goes on before all have come, they meet; otherwise it is 0. The
    // process has met them so often before.
    void wait(std::uint32_t thread, std::uint32_t processes, std::uint32_t before = 0);
    void go_on(std::uint32_t thread);
    // While it waits: the process comes to the place of that name, or waits there for all others
    // that come, or both. Turns count from 0 on. Whether it waits as a sender: meeting.hpp.
    void meet(std::uint32_t thread, std::string_view place, std::uint32_t turn, bool comes,
              bool waits, bool sends);

    // Shown to those who read the trace.
    void warn(std::string_view text);

    // Writes the rest and gives the file its name. Nothing can be recorded afterwards; to close
    // again does nothing.
    void close();
    // Removes the file, unless it is closed.
    void discard();

  private:
    // Addresses of a program end here, with five levels of page tables.
    static constexpr std::uint64_t address_limit = std::uint64_t{1} << 57;
    static constexpr std::uint32_t threads_limit = 4096;  // docs/trace-format.md

    struct Thread;
    using Numbers = std::unordered_map<std::string, std::uint64_t>;  // by name, from 1 on

    [[nodiscard]] std::unique_lock<std::mutex> lock();
    Thread& thread(std::uint32_t id);
    void check_written() const;

    std::mutex mutex_;
    std::string path_;
    bool any_tlb_;
    bool pages_exist_;
    std::optional<TraceWriter> writer_;  // none: closed or discarded
    std::map<std::uint32_t, std::unique_ptr<Thread>> threads_;
    Numbers sites_;
    Numbers files_;
    Numbers phases_;
    Numbers places_;
    std::uint64_t syncs_ = 0;
};

}  // namespace pagelens
