// The client of DynamoRIO: its installation, its stages, and what happens to threads, at system
// calls and at the end. What is recorded of instructions is in instrumentation.cpp; what then
// happens is the Tracer's.
#include <dr_api.h>
#include <drmgr.h>
#include <drreg.h>
#include <drutil.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracer/doorbell.hpp"
#include "tracer/dynamorio/instrumentation.hpp"
#include "tracer/dynamorio/irregular.hpp"
#include "tracer/dynamorio/program_start.hpp"
#include "tracer/dynamorio/recording.hpp"
#include "tracer/dynamorio/state.hpp"
#include "tracer/follow_exec.hpp"
#include "tracer/last_line.hpp"
#include "tracer/status.hpp"

namespace pagelens {
namespace {

int thread_field = -1;  // drmgr's, of each thread: its ThreadRecording, if it is recorded
reg_id_t slots_register;
unsigned slots_offset;
RecordedBlocks* blocks;
ProgramStart start;
LastLine* last_line = nullptr;
process_id_t process;             // whose threads are recorded
std::atomic<int> exit_status{0};  // as the program gave it to exit_group, or the signal's

// The writer's thread begins once the program runs: before, DynamoRIO has no other threads.
std::atomic<bool> wants_writer{true};
std::atomic<void*> forking{nullptr};  // the thread that holds the writer while it forks

std::mutex threads_mutex;                          // of what follows
std::vector<ThreadRecording*> recordings;          // by the tracer's index; null: free
std::atomic<std::uint64_t> ended_instructions{0};  // of threads that are gone
StageSwitch stage_switch;                          // of a sampled run
const std::uint8_t readable[1] = {};

ThreadRecording* recording_of(void* context) {
    return static_cast<ThreadRecording*>(drmgr_get_tls_field(context, thread_field));
}

// A thread holds this while it may hold locks of the tracer: DynamoRIO stops no thread that holds a
// lock of DynamoRIO's own.
class Busy {
  public:
    explicit Busy(ThreadRecording* recording) : recording_(recording) {
        if (recording_ != nullptr) dr_mutex_lock(recording_->busy());
    }
    ~Busy() {
        if (recording_ != nullptr) dr_mutex_unlock(recording_->busy());
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

  private:
    ThreadRecording* const recording_;
};

// Works with all other threads stopped, so that nothing of theirs is left for another stage. None
// of them is about to fork then, because who forks holds the writer.
template <typename Work>
void alone(Work work) {
    for (;;) {
        void** others = nullptr;
        uint stopped = 0, running = 0;
        const bool suspended = dr_suspend_all_other_threads(&others, &stopped, &running);
        const void* const forks = forking;
        const bool waits = forks != nullptr && forks != dr_get_current_drcontext();
        if (!waits) work();
        if (suspended) dr_resume_all_other_threads(others, stopped);
        if (!waits) return;
        dr_thread_yield();
    }
}

void drain_all() {
    for (ThreadRecording* recording : recordings)
        if (recording != nullptr) recording->drain_stopped();
}

// Called from translated code. Translates the code anew, and lets the program go on at `pc`.
void go_on_at(app_pc pc, dr_mcontext_t& registers) {
    dr_flush_region(nullptr, ~std::size_t{0});
    registers.pc = pc;
    dr_redirect_execution(&registers);
}

struct Registers : dr_mcontext_t {
    explicit Registers(dr_mcontext_flags_t parts) {
        size = sizeof(dr_mcontext_t);
        flags = parts;
        if (!dr_get_mcontext(dr_get_current_drcontext(), this)) {
            dr_fprintf(STDERR, "pagelens: DynamoRIO does not tell the program's registers\n");
            dr_abort();
        }
    }
};

// The client's own libc was not told of the program's threads, and would leave out its locks.
void tell_libc_of_threads() {
    __libc_single_threaded = 0;
    __asm__ volatile("movl $1, %%fs:0x18" ::
                         : "memory");  // tcbhead_t.multiple_threads (glibc 2.2 on)
}

struct ThreadWork {
    void (*work)(void*);
    void* argument;
};

// It goes on while all threads of the program are stopped, and the program's signals are not for
// it. DynamoRIO stops and ends threads by signals of its own.
void run_in_thread(void* given) {
    const ThreadWork work = *static_cast<ThreadWork*>(given);
    delete static_cast<ThreadWork*>(given);
    dr_client_thread_set_suspendable(false);
    std::uint64_t blocked = ~std::uint64_t{0};
    for (const int needed : {SIGILL, SIGSTKFLT, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP})
        blocked &= ~(std::uint64_t{1} << (needed - 1));
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, nullptr, sizeof blocked);
    tell_libc_of_threads();
    work.work(work.argument);
    // DynamoRIO ends it with the program, and would wait for ever for one that is about to end.
    for (;;) dr_sleep(1000);
}

bool start_thread(void (*work)(void*), void* argument) {
    auto* const given = new ThreadWork{work, argument};
    if (dr_create_client_thread(run_in_thread, given)) return true;
    delete given;
    return false;
}

void start_writer() {
    if (wants_writer.load(std::memory_order_relaxed) && wants_writer.exchange(false))
        tracer->start_writer(start_thread);
}

bool forks(const SystemCall& call) {
    const std::uint64_t first = call.argument[0];
    switch (call.number) {
        case nr::fork:
        case nr::vfork:
            return true;
        case nr::clone:
            return (first & CLONE_VM) == 0;
        case nr::clone3: {
            std::uint64_t flags = CLONE_VM;
            std::size_t size = 0;
            dr_safe_read(reinterpret_cast<const void*>(first), sizeof flags, &flags, &size);
            return (flags & CLONE_VM) == 0;
        }
        default:
            return false;
    }
}

// --- sampled runs: windows and what lies between them
// ---------------------------------------------

// When windows begin. Each period of the run has one window, of the same share. Periods grow with
// the run, so that it has some tens of windows whatever its length: each begins and ends with all
// code translated anew. A window begins at a place of its period that no loop keeps step with
// (multiples of the golden ratio, modulo 1), the first one at once.
struct Schedule {
    std::uint64_t begin = 0, length = 0, number = 0;  // of the period

    void next() {
        begin += length;
        length = std::max(options.period, begin >> 4);
        ++number;
    }
    [[nodiscard]] std::uint64_t window() const {
        return static_cast<std::uint64_t>(static_cast<double>(options.window) /
                                          static_cast<double>(options.period) *
                                          static_cast<double>(length));
    }
    [[nodiscard]] std::uint64_t window_begins() const {
        const double golden = 0.6180339887498949 * static_cast<double>(number);
        return begin + static_cast<std::uint64_t>((golden - std::floor(golden)) *
                                                  static_cast<double>(length - window()));
    }
} schedule;

// Instructions of all threads so far, from the program's first traced one on.
std::uint64_t position() {
    std::uint64_t executed = ended_instructions;
    for (const ThreadRecording* recording : recordings)
        if (recording != nullptr) executed += Tracer::vcpu(recording->index()).instructions();
    return executed;
}

constexpr std::int64_t least_look = 1 << 16;  // instructions; no window has to begin more exactly

std::int64_t left_for_each(std::uint64_t instructions) {
    const auto threads = static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(
        std::ranges::count_if(recordings, [](auto* each) { return each != nullptr; }), 1));
    return std::max(static_cast<std::int64_t>(instructions / threads), least_look);
}

constexpr std::uint64_t all_memory = ~std::uint64_t{0};

void end_window() {
    alone([&] {
        if (stage != Stage::tracing || ThreadRecording::left_of_window > 0) return;
        drain_all();
        if (stage != Stage::tracing) return;  // the budget is used up
        const std::uint64_t now = position();
        schedule.next();
        if (schedule.window_begins() < now + least_look) {  // the last one was long
            ThreadRecording::left_of_window = static_cast<std::int64_t>(schedule.window());
            return;
        }
        stage = Stage::between;
        const std::int64_t each = left_for_each(schedule.window_begins() - now);
        for (ThreadRecording* recording : recordings)
            if (recording != nullptr) recording->begin_gap(each);
    });
}

// The thread has executed what it was to between two windows.
void look_for_window(ThreadRecording& own) {
    alone([&] {
        if (stage != Stage::between) {  // another thread has begun the window
            own.look_in(static_cast<std::int64_t>(options.period));
            return;
        }
        drain_all();
        for (ThreadRecording* recording : recordings)
            if (recording != nullptr) recording->count_gap();
        const std::uint64_t now = position();
        const std::uint64_t begin = schedule.window_begins();
        const bool begins = now + least_look > begin;
        const std::int64_t each =
            begins ? static_cast<std::int64_t>(options.period) : left_for_each(begin - now);
        for (ThreadRecording* recording : recordings)
            if (recording != nullptr) recording->look_in(each);
        if (!begins) return;
        for (ThreadRecording* recording : recordings)
            if (recording != nullptr) recording->find_frames();
        tracer->touched(Tracer::vcpu(own.index()), 0, all_memory);
        ThreadRecording::left_of_window = static_cast<std::int64_t>(schedule.window());
        stage = Stage::tracing;
    });
}

void on_change(app_pc, std::uint64_t) {
    ThreadRecording* const own = recording_of(dr_get_current_drcontext());
    own->slots().probe = readable;
    const Stage before = stage;
    if (before == Stage::between)
        look_for_window(*own);
    else if (before == Stage::tracing)
        end_window();
    Registers registers(DR_MC_ALL);
    if (stage != before) return go_on_at(own->resume_at, registers);
    registers.pc = own->resume_at;
    dr_redirect_execution(&registers);
}

// Takes note of pages that the call is about to take away, before it does.
void see_pages(ThreadRecording& recording, const SystemCall& call) {
    const auto& argument = call.argument;
    const bool takes = call.number == nr::munmap || call.number == nr::mremap ||
                       call.number == nr::madvise ||
                       (call.number == nr::mmap && (argument[3] & MAP_FIXED) != 0);
    Vcpu& vcpu = Tracer::vcpu(recording.index());
    const bool ends = call.number == nr::exit_group || call.number == nr::execve;
    if (takes) tracer->touched(vcpu, argument[0], argument[0] + argument[1]);
    if (ends) tracer->touched(vcpu, 0, all_memory);
    if (call.number == nr::brk && argument[0] != 0)
        tracer->touched(vcpu, argument[0], tracer->program_break());
}

void on_drain() {
    ThreadRecording* const recording = recording_of(dr_get_current_drcontext());
    if (recording == nullptr) return;
    const Busy busy(recording);
    start_writer();
    recording->drain();
    if (options.window != 0 && stage == Stage::tracing && ThreadRecording::left_of_window <= 0)
        recording->slots().probe = stage_switch.trap;
}

// Tracing is on while a thread is in the region of --region. Returns whether the stage changed.
bool enter_or_leave(const pagelens_record& record) {
    static std::mutex mutex;  // the stage follows the count
    static unsigned inside = 0;
    const std::lock_guard lock(mutex);
    const Stage before = stage;
    if (record.kind == PAGELENS_REGION_BEGIN) {
        if (inside++ == 0 && before == Stage::waiting) stage = Stage::tracing;
    } else if (inside > 0 && --inside == 0 && before == Stage::tracing) {
        stage = Stage::waiting;
    }
    return stage != before;
}

void on_doorbell(app_pc next, std::uint64_t) {
    ThreadRecording* recording = recording_of(dr_get_current_drcontext());
    if (recording == nullptr) return;
    Registers registers(DR_MC_ALL);
    const pagelens_record record = read_record(0, registers.xcx + PAGELENS_MAGIC);
    const bool marker = record.kind == PAGELENS_REGION_BEGIN || record.kind == PAGELENS_REGION_END;
    {
        const Busy busy(recording);
        recording->drain();
        if (stage == Stage::between) {
            if (marker) recording->count_gap();
            if (record.kind == PAGELENS_BIRTH) recording->find_frames(registers.xsp);
        }
        tracer->doorbell(Tracer::vcpu(recording->index()), record);
    }
    if (!marker || options.region.empty() || region_name(0, record) != options.region) return;
    bool changed = false;
    alone([&] {
        drain_all();
        changed = enter_or_leave(record);
    });
    if (!changed) return;
    // The store itself is left out: it stores what is there already.
    go_on_at(next, registers);
}

void on_begin_function(app_pc pc, std::uint64_t) {
    if (stage != Stage::waiting) return;
    alone([&] {
        drain_all();
        stage = options.skip > 0 ? Stage::skipping : Stage::tracing;
    });
    Registers registers(DR_MC_ALL);
    go_on_at(pc, registers);
}

void on_irregular(app_pc pc, std::uint64_t number) {
    void* const context = dr_get_current_drcontext();
    ThreadRecording* recording = recording_of(context);
    if (recording == nullptr) return;
    const Busy busy(recording);
    recording->drain();
    if (stage != Stage::tracing) return;
    const RecordedBlock& block = (*blocks)[number];
    const AccessPlace place =
        AccessPlace(block.code, block.instructions).at(block.instructions - 1u);
    Registers registers(DR_MC_ALL);
    instr_t instruction;
    instr_init(context, &instruction);
    if (decode(context, pc, &instruction) != nullptr) {
        const bool string = is_string_operation(&instruction);
        irregular_accesses(&instruction, registers, [&](const IrregularAccess& access) {
            string ? recording->string_element(access.address, access.store, access.bytes,
                                               place.as_string())
                   : recording->access(access.address, access.store, access.bytes, place);
        });
    }
    instr_free(context, &instruction);
}

bool is_of_process() { return static_cast<process_id_t>(::syscall(SYS_getpid)) == process; }

ThreadSlots& slots_of_this_thread() {
    return *reinterpret_cast<ThreadSlots*>(
        static_cast<char*>(dr_get_dr_segment_base(slots_register)) + slots_offset);
}

[[noreturn]] void give_up(const std::string& why) {
    report(options.status, "error " + why);
    if (options.status.empty()) dr_fprintf(STDERR, "pagelens: tracer: %s\n", why.c_str());
    dr_exit_process(1);
    std::abort();
}

void begin_recording(void* context) {
    unsigned index = 0;
    if (options.window != 0 && tracer->vcpus_used() > 0)
        give_up(
            "the program has several threads, of which no windows can be traced (--sample); "
            "trace it whole");
    {
        const std::lock_guard lock(threads_mutex);
        while (index < recordings.size() && recordings[index] != nullptr) ++index;
        if (index == recordings.size()) recordings.push_back(nullptr);
        recordings[index] = reinterpret_cast<ThreadRecording*>(1);  // taken
    }
    tracer->begin_thread(index);
    auto* recording = new ThreadRecording(*tracer, *blocks, index, slots_of_this_thread());
    drmgr_set_tls_field(context, thread_field, recording);
    const std::lock_guard lock(threads_mutex);
    recordings[index] = recording;
}

// A child of vfork has its parent's memory, and until it executes a program it is no thread of it.
void on_thread_begin(void* context) {
    tell_libc_of_threads();
    if (is_of_process()) return begin_recording(context);
    static std::uint64_t nowhere[ThreadRecording::block_limit + 64];
    static ReturnMirror returns;
    slots_of_this_thread() = {
        nowhere,       nowhere + 64, 0, returns.data(), std::numeric_limits<std::int64_t>::max(),
        returns.data()};
}

// It may be another thread that calls this for one that has ended.
void on_thread_end(void* context) {
    ThreadRecording* recording = recording_of(context);
    // In a forked child its parent's other threads end before on_fork is called.
    if (recording == nullptr || !is_of_process()) return;
    drmgr_set_tls_field(context, thread_field, nullptr);
    recording->drain();
    {
        const std::lock_guard lock(threads_mutex);
        tracer->untraced_instructions += recording->slots().untraced;
        recording->slots().untraced = 0;
    }
    recording->count_gap();
    ended_instructions += Tracer::vcpu(recording->index()).instructions();
    tracer->end_thread(recording->index());
    const std::lock_guard lock(threads_mutex);
    recordings[recording->index()] = nullptr;
    delete recording;
}

void finish(int status) {
    for (ThreadRecording* recording : recordings) {
        if (recording == nullptr) continue;
        recording->drain_stopped();
        recording->count_gap();
        tracer->untraced_instructions += recording->slots().untraced;
        recording->slots().untraced = 0;
    }
    tracer->finish(status);
}

// The call itself is DynamoRIO's: it notes that a child of vfork is gone with it, and would wait
// for that child at the end of the program otherwise.
void on_exec(void* context, const SystemCall& call) {
    const ExecRequest request = exec_request(call, 0, tracer->program());
    if (!request.runs) return;  // the call fails and the program goes on
    if (is_of_process()) alone([] { finish(0); });
    last_line->report_to(options.status);
    if (request.traceable && !options.child_output.empty()) {
        Options given = tracer->options();
        if (!is_of_process()) given.program = 0;  // of a new process
        EngineExec* const exec = exec_in_engine(request, given);
        const auto argv = reinterpret_cast<reg_t>(exec->argv.data());
        const auto envp = reinterpret_cast<reg_t>(exec->envp.data());
        if (call.number == nr::execve) {
            dr_syscall_set_param(context, 0, reinterpret_cast<reg_t>(exec->path.c_str()));
            dr_syscall_set_param(context, 1, argv);
            dr_syscall_set_param(context, 2, envp);
            return;
        }
        ::execve(exec->path.c_str(), exec->argv.data(), exec->envp.data());
    }
    report(options.status, "exec " + request.path);
}

bool on_system_call(void* context, int number) {
    SystemCall call{number, {}};
    for (int i = 0; i < 6; ++i) call.argument[i] = dr_syscall_get_param(context, i);
    if (number == nr::exit_group || number == nr::exit)
        exit_status = static_cast<int>(call.argument[0] & 0xff);
    ThreadRecording* recording = recording_of(context);
    if (recording != nullptr) {
        const Busy busy(recording);
        recording->drain();
        if (stage == Stage::between) see_pages(*recording, call);
    }
    // This is as with QEMU: after an execve in a child of vfork, the parent would wait for ever.
    if (number == SYS_vfork) dr_syscall_set_sysnum(context, SYS_fork);
    if (number == nr::execve || number == nr::execveat) on_exec(context, call);
    if (recording == nullptr) return true;
    const Busy busy(recording);
    tracer->system_call(Tracer::vcpu(recording->index()), call);
    if (forks(call)) {
        tracer->hold_writer();
        forking = context;
    }
    return true;
}

void on_system_call_return(void* context, int) {
    void* holder = context;
    if (forking.compare_exchange_strong(holder, nullptr)) tracer->let_writer_go();
    ThreadRecording* recording = recording_of(context);
    if (recording == nullptr) return;
    const Busy busy(recording);
    dr_syscall_result_info_t result{};
    result.size = sizeof result;
    if (!dr_syscall_get_result_ex(context, &result)) return;
    Vcpu& vcpu = Tracer::vcpu(recording->index());
    const auto value = static_cast<std::int64_t>(result.value);
    if (vcpu.thread != nullptr) last_line->written(vcpu.thread->call, value, 0);
    tracer->system_call_returned(vcpu, value);
}

void on_fork(void* context) {
    forking = nullptr;  // the writer's thread is not here
    tracer->forked();
    process = static_cast<process_id_t>(::syscall(SYS_getpid));
    ThreadRecording* const own = recording_of(context);
    for (ThreadRecording*& recording : recordings) {
        if (recording != own) recording = nullptr;  // their threads are not here
    }
    if (options.follow_forks != 0) {
        if (own != nullptr) tracer->begin_in_child(own->index());
        ended_instructions = 0;
        schedule = {.length = options.period};
        wants_writer = true;
    } else {
        report(options.status, "fork");
        stage = Stage::idle;
        dr_delay_flush_region(nullptr, ~std::size_t{0}, 0, nullptr);
    }
}

dr_signal_action_t on_signal(void* context, dr_siginfo_t* info) {
    if (info->sig == SIGSEGV && stage_switch.trap != nullptr &&
        info->access_address == stage_switch.trap) {
        recording_of(context)->resume_at = info->mcontext->pc;
        info->mcontext->pc = stage_switch.code;
        return DR_SIGNAL_REDIRECT;
    }
    exit_status = 128 + info->sig;
    return DR_SIGNAL_DELIVER;
}

void on_exit() {
    if (forking.exchange(nullptr) != nullptr) tracer->let_writer_go();  // its thread is gone
    finish(exit_status);
    last_line->report_to(options.status);
}

bool owns(std::uint64_t address) {
    auto* const pc = reinterpret_cast<byte*>(address);
    return dr_memory_is_dr_internal(pc) || dr_memory_is_in_client(pc);
}

// Code that does nothing, and a page that may not be read, where instructions can name it by 32
// bits.
bool make_stage_switch() {
    constexpr std::uint64_t highest = 0x7fff0000, lowest = 0x10000000, step = 0x800000;
    void* trap = nullptr;
    for (std::uint64_t at = highest; trap == nullptr && at > lowest; at -= step)
        trap = dr_raw_mem_alloc(page_bytes, DR_MEMPROT_NONE, reinterpret_cast<void*>(at));
    void* const code = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trap == nullptr || code == MAP_FAILED) return false;
    constexpr std::uint8_t nothing[] = {0x90, 0xeb, 0xfd};  // nop; back to it
    std::ranges::copy(nothing, static_cast<std::uint8_t*>(code));
    ::mprotect(code, page_bytes, PROT_READ | PROT_EXEC);
    stage_switch = {static_cast<app_pc>(trap), static_cast<app_pc>(code)};
    return true;
}

bool install() {
    if (options.window != 0 && !make_stage_switch()) return false;
    drreg_options_t registers{};
    registers.struct_size = sizeof registers;
    registers.num_spill_slots = 5;
    if (!drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drutil_init()) return false;
    if (!dr_raw_tls_calloc(&slots_register, &slots_offset, sizeof(ThreadSlots) / 8, 0))
        return false;
    thread_field = drmgr_register_tls_field();
    auto** const table = static_cast<RecordedBlock const**>(dr_raw_mem_alloc(
        RecordedBlocks::limit * sizeof(void*), DR_MEMPROT_READ | DR_MEMPROT_WRITE, nullptr));
    if (thread_field < 0 || table == nullptr) return false;
    blocks = new RecordedBlocks(table);
    const InstrumentationCalls calls{on_drain, on_change, on_doorbell, on_irregular,
                                     on_begin_function};
    dr_register_exit_event(on_exit);
    dr_register_fork_init_event(on_fork);
    dr_register_filter_syscall_event([](void*, int) { return true; });
    return Instrumentation::install(*blocks, calls, slots_register, slots_offset, stage_switch) &&
           drmgr_register_thread_init_event(on_thread_begin) &&
           drmgr_register_thread_exit_event(on_thread_end) &&
           drmgr_register_pre_syscall_event(on_system_call) &&
           drmgr_register_post_syscall_event(on_system_call_return) &&
           drmgr_register_signal_event(on_signal);
}

void begin() try {
    start = take_program_start();
    options = start.options;
    if (!options.function_file.empty() || !options.region.empty()) {
        stage = Stage::waiting;
    } else if (options.skip > 0) {
        stage = Stage::skipping;
    }
    ThreadRecording::to_skip = static_cast<std::int64_t>(options.skip);
    schedule.length = options.period;
    ThreadRecording::left_of_window = static_cast<std::int64_t>(options.window);
    process = static_cast<process_id_t>(::syscall(SYS_getpid));
    const Engine dynamorio{
        .producer = "pagelens tracer (DynamoRIO)",
        .guest_base = 0,
        .budget_used = [] { go_to(Stage::finishing); },
        .start_thread = nullptr,
        .owns = owns,
    };
    last_line = new LastLine();
    tracer = new Tracer(options, start.command, dynamorio);
    if (!install()) give_up("DynamoRIO does not offer what the tracer needs");
} catch (const std::exception& error) {
    give_up(std::string("cannot write the trace: ") + error.what());
}

}  // namespace

void go_to(Stage to) {
    Stage from = stage;
    if (from == to || from == Stage::idle || !stage.compare_exchange_strong(from, to)) return;
    if (to == Stage::finishing) dr_delay_flush_region(nullptr, ~std::size_t{0}, 0, nullptr);
}

}  // namespace pagelens

DR_EXPORT void dr_client_main(client_id_t, int, const char*[]) {
    dr_set_client_name("pagelens", "");
    pagelens::begin();
}
