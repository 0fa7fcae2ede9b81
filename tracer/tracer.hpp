// The tracer of one process: its threads, its session, and what is recorded of them. The callbacks
// that QEMU calls are in *_callbacks.cpp, what they are put on in translation.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hooks/pagelens.h"
#include "tracer/access_place.hpp"
#include "tracer/code_blocks.hpp"
#include "tracer/engine.hpp"
#include "tracer/options.hpp"
#include "tracer/qemu_plugin_api.h"
#include "tracer/session.hpp"
#include "tracer/shared_lines.hpp"
#include "tracer/vcpu.hpp"
#include "tracer/written_pages.hpp"

namespace pagelens {

class Tracer {
  public:
#ifdef PAGELENS_MAX_THREADS
    static constexpr unsigned max_vcpus = PAGELENS_MAX_THREADS;
#else
    static constexpr unsigned max_vcpus = 16384;
#endif

    // Throws std::system_error if the trace cannot be created.
    Tracer(Options options, std::vector<std::string> command, const Engine& engine);

    const Options& options() const { return options_; }
    static Vcpu& vcpu(unsigned index) { return table_.vcpus[index]; }
    unsigned vcpus_used() const { return used_; }
    const std::string& program() const { return command_.front(); }
    Modules& modules() { return *modules_; }
    CodeBlocks& code() { return code_; }
    // The address of the function of --from-function, or 0 until its file is mapped and runs.
    std::uint64_t begin_address() const { return begin_address_; }
    // The number of sets of the strips' page filters.
    unsigned page_sets_used() const { return options_.any_tlb != 0 ? 1 : page_sets; }
    bool in_child() const { return in_child_.load(std::memory_order_relaxed); }

    void begin_thread(unsigned index);
    void end_thread(unsigned index);

    // The rest is called by the thread itself.

    // An access that the strip did not hide; it may cross into the next line.
    template <bool store>
    void pass(Vcpu& vcpu, std::uint64_t address, qemu_plugin_meminfo_t info, AccessPlace place);
    void stream_store(Vcpu& vcpu, std::uint64_t address, AccessPlace place);
    // An element of a string operation, for which the strip counted `made` accesses.
    void string_access(Vcpu& vcpu, std::uint64_t address, bool store, unsigned size,
                       std::uint64_t made);
    // Its instruction count has come to `look_at`, in this block (0: not known): the count is
    // recorded, and from time to time it is seen whether the program's budget is used up. While a
    // sample of instructions is taken, that is so in each block.
    void look(Vcpu& vcpu, std::uint32_t block = 0);
    void doorbell(Vcpu& vcpu, const pagelens_record& record);
    // The thread pushed its return address to `address`: somewhere in its stack.
    void know_stack(Vcpu& vcpu, std::uint64_t address);
    void system_call(Vcpu& vcpu, const SystemCall& call);
    void system_call_returned(Vcpu& vcpu, std::int64_t result);

    // Tells the driver how many accesses the process has made so far: before a fork and after a
    // wait, so that it knows what a process did while its children ran.
    void report_work();

    // Records what the other threads hold, while all of them are stopped, and nothing more.
    void stop_recording();
    // The same for one thread, which calls it itself or is stopped.
    void stop_recording(Vcpu& vcpu);
    // The process ends with this status (as a shell states it), or a signal ends it.
    void finish(std::int32_t exit_status, int signal = 0);

    // These three do what those of the session do.
    bool start_writer(bool (*start_thread)(void (*work)(void*), void* argument)) {
        return session_->start_writer(start_thread);
    }
    // Holds the writer while the program forks. Returns false if there is no writer, as in a child
    // that is not followed.
    bool hold_writer() {
        if (finished_) return false;
        session_->hold_writer();
        return true;
    }
    void let_writer_go() { session_->let_writer_go(); }

    // Around a fork before which the engine leaves other threads at work: none of them holds a lock
    // that the child needs, or is changing what the child has of its parent.
    void hold_locks();
    void let_locks_go();

    // Call this in a forked child. Nothing more is recorded, or everything goes into a file of its
    // own.
    void forked();
    void begin_in_child(unsigned index);

    // Instructions that ran without being traced. Counted in line, so that threads may lose some.
    std::uint64_t untraced_instructions = 0;

  private:
    void open_session();
    [[gnu::noinline]] void crossing(Vcpu& vcpu, std::uint64_t address, bool store, unsigned size,
                                    AccessPlace place);
    [[gnu::noinline]] void pass_line(Vcpu& vcpu, std::uint64_t address, bool store,
                                     AccessPlace place);
    static unsigned index_of(const Vcpu& vcpu);
    bool known_to_be_alone(const Vcpu& vcpu, std::uint64_t address, bool store) const;
    void pass_shared(Vcpu& vcpu, std::uint64_t address, bool store, AccessPlace place);
    [[gnu::noinline]] void write_page(Vcpu& vcpu, std::uint64_t page, AccessPlace place);
    void end_first_writes(Vcpu& vcpu);
    std::uint64_t writer_id(const ShadowStack& stack, AccessPlace place);
    bool ready(const Vcpu& vcpu) const;
    [[gnu::noinline]] bool prepare(Vcpu& vcpu);
    void stamp(Vcpu& vcpu);
    void end_sample(Vcpu& vcpu);
    void enter_phase(Vcpu& vcpu);
    void begin_wait(Vcpu& vcpu, std::uint64_t meeting);
    void end_wait(Vcpu& vcpu);
    void make_room(Vcpu& vcpu, std::size_t records);
    void submit(Vcpu& vcpu);
    // Files are defined before the first event that names them.
    void define_files();
    void sync(Vcpu& vcpu);
    void sync(Vcpu& vcpu, std::uint64_t number);
    void given_back(Vcpu& vcpu, const Event& event);
    void unmap(Vcpu& vcpu, const SystemCall& call);
    void forget_pages(Vcpu& vcpu);
    void know_heap(std::uint64_t program_break);
    void know_files(Vcpu& vcpu);
    static std::uint64_t new_memory_id();
    // A child of fork has its parent's memory until it writes there, as if it had mapped a file.
    void know_inherited(Vcpu& vcpu);
    // It also has the advice that its parent gave the kernel.
    void know_advice(Vcpu& vcpu);
    std::uint64_t accesses_of_work() const;
    std::uint64_t budget_left();
    std::uint64_t phase_id(const std::string& name);
    std::uint32_t place_id(const std::string& name);

    // Pages of address space, which become memory with the threads: begin_thread makes the Vcpu.
    union VcpuTable {
        constexpr VcpuTable() : none(0) {}
        char none;
        Vcpu vcpus[max_vcpus];
    };

    Options options_;
    const std::vector<std::string> command_;
    const Engine engine_;
    AddressSpace space_;
    std::uint64_t memory_id_ =
        new_memory_id();        // of this process, by which children of fork know it
    bool files_known_ = false;  // in this session: those that memory showed when it began
    // Hidden: where it is declared only, that is not so by itself, and costs a load an access.
    [[gnu::visibility("hidden")]] static VcpuTable table_;
    std::atomic<std::uint64_t> begin_address_{0};
    CodeBlocks code_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Modules> modules_;
    std::unique_ptr<CallSites> sites_;

    std::mutex mutex_;                  // of what follows, but for the atomics
    unsigned used_ = 0;                 // vCPU indices ever used
    std::atomic<unsigned> threads_{0};  // alive
    std::atomic<bool> met_{false};      // there was more than one thread
    std::unique_ptr<SharedLines> shared_lines_ = std::make_unique<SharedLines>();
    std::uint64_t ended_accesses_ = 0, ended_instructions_ = 0;  // of threads that are gone
    struct Range {
        std::uint64_t page, count;
    };
    std::vector<Range> given_back_;  // while there are threads to tell
    std::atomic<std::size_t> given_back_size_{0};
    std::atomic<std::uint64_t> waiting_accesses_{0};  // of waits and threads that have ended
    std::map<std::string, std::uint64_t> phases_;
    std::map<std::string, std::uint32_t> places_;
    std::map<std::vector<std::uint64_t>, std::uint64_t> writers_;
    std::atomic<std::uint64_t> runs_of_first_writes_{0};
    std::unique_ptr<WrittenPages> written_pages_ = std::make_unique<WrittenPages>();
    std::uint64_t heap_start_ = 0, heap_known_ = 0;
    std::atomic<bool> in_child_{false};
    std::atomic<bool> budget_used_{false};
    bool finished_ = false;
};

}  // namespace pagelens
