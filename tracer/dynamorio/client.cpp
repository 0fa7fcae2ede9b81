// The client of DynamoRIO: its installation, its stages, and what happens to threads, at system
// calls and at the end. What is recorded of instructions is in instrumentation.cpp; what then
// happens is the Tracer's.
#include <dr_api.h>
#include <drmgr.h>
#include <drreg.h>
#include <drutil.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
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

// scripts/dynamorio.patch adds them to DynamoRIO.
extern "C" void dr_let_signals_interrupt(void* context, byte* return_address);
extern "C" void dr_return_signals(void* context);
// glibc has it from version 2.32 on.
extern "C" [[gnu::weak]] char __libc_single_threaded;

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
std::atomic<int> last_signal{0};  // since then; 0: none

// The writer's thread begins once the program runs: before, DynamoRIO has no other threads.
std::atomic<bool> wants_writer{true};
std::atomic<void*> forking{nullptr};  // the thread that holds the writer while it forks

// The program's threads that have not ended.
struct Threads {
    int seen;   // by DynamoRIO
    int young;  // the others
};
std::atomic<Threads> threads{{0, 1}};

void count_threads(int more_seen, int more_young) {
    for (Threads now = threads; !threads.compare_exchange_weak(
             now, Threads{now.seen + more_seen, now.young + more_young});) {
    }
}

std::mutex threads_mutex;                  // of what follows
std::vector<ThreadRecording*> recordings;  // by the tracer's index; null: free

ThreadRecording* recording_of(void* context) {
    return static_cast<ThreadRecording*>(drmgr_get_tls_field(context, thread_field));
}

// Works with all other threads stopped, so that nothing of theirs is left for another stage.
template <typename Work>
void alone(Work work) {
    void** others = nullptr;
    uint stopped = 0, running = 0;
    const bool suspended = dr_suspend_all_other_threads(&others, &stopped, &running);
    work();
    if (suspended) dr_resume_all_other_threads(others, stopped);
}

void drain_all() {
    for (ThreadRecording* recording : recordings)
        if (recording != nullptr) recording->drain();
}

// Called from translated code. Translates the code anew, and lets the program go on at `pc`.
void go_on_at(app_pc pc, dr_mcontext_t& registers) {
    dr_flush_region(nullptr, ~std::size_t{0});
    registers.pc = pc;
    dr_redirect_execution(&registers);
}

struct Registers : dr_mcontext_t {
    explicit Registers(dr_mcontext_flags_t parts)
        : dr_mcontext_t{} {  // DynamoRIO leaves out vectors that no instruction has used
        size = sizeof(dr_mcontext_t);
        flags = parts;
        dr_get_mcontext(dr_get_current_drcontext(), this);
    }
};

// tcbhead_t.pointer_guard of the thread in which the client's libc began.
const std::uint64_t first_guard = [] {
    std::uint64_t guard;
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    return guard;
}();

// The client's own libc was not told of the program's threads, and would leave out its locks.
// Before glibc 2.34 it also calls libpthread by pointers that were encoded with the first thread's
// guard.
void tell_libc_of_threads() {
    __asm__ volatile("movq %0, %%fs:0x30" ::"r"(first_guard) : "memory");
    if (&__libc_single_threaded != nullptr) __libc_single_threaded = 0;
    __asm__ volatile("movl $1, %%fs:0x18" ::
                         : "memory");  // tcbhead_t.multiple_threads (glibc 2.2 on)
}

// Those stay by which DynamoRIO stops and ends threads, or which faults of its own make.
void leave_signals_to_others() {
    std::uint64_t blocked = ~std::uint64_t{0};
    for (const int needed : {SIGILL, SIGSTKFLT, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP})
        blocked &= ~(std::uint64_t{1} << (needed - 1));
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, nullptr, sizeof blocked);
}

struct ThreadWork {
    void (*work)(void*);
    void* argument;
};

// It goes on while all threads of the program are stopped, and the program's signals are not for
// it.
void run_in_thread(void* given) {
    const ThreadWork work = *static_cast<ThreadWork*>(given);
    delete static_cast<ThreadWork*>(given);
    dr_client_thread_set_suspendable(false);
    leave_signals_to_others();
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

std::uint64_t clone_flags(const SystemCall& call) {
    std::uint64_t flags = call.argument[0];
    if (call.number == nr::clone3) {
        const auto* const at = reinterpret_cast<const void*>(flags);
        flags = CLONE_VM;
        std::size_t size = 0;
        dr_safe_read(at, sizeof flags, &flags, &size);
    }
    return flags;
}

bool forks(const SystemCall& call) {
    switch (call.number) {
        case nr::fork:
        case nr::vfork:
            return true;
        case nr::clone:
        case nr::clone3:
            return (clone_flags(call) & CLONE_VM) == 0;
        default:
            return false;
    }
}

void on_drain() {
    start_writer();
    if (ThreadRecording* recording = recording_of(dr_get_current_drcontext())) recording->drain();
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
    recording->drain();
    Registers registers(DR_MC_ALL);
    const pagelens_record record = read_record(0, registers.xcx + PAGELENS_MAGIC);
    tracer->doorbell(Tracer::vcpu(recording->index()), record);
    const bool marker = record.kind == PAGELENS_REGION_BEGIN || record.kind == PAGELENS_REGION_END;
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
            if (access.stream) return recording->stream_store(access.address, place);
            string ? recording->string_element(access.address, access.store, access.bytes,
                                               place.as_string())
                   : recording->access(access.address, access.store, access.bytes, place);
        });
    }
    instr_free(context, &instruction);
}

// What translated code calls. DynamoRIO only notes a signal that comes meanwhile, and the program
// would go on in linked blocks without it.
template <auto work, typename... Arguments>
[[gnu::noinline]] void called(Arguments... arguments) {
    work(arguments...);
    dr_let_signals_interrupt(dr_get_current_drcontext(),
                             static_cast<byte*>(__builtin_return_address(0)));
}

bool is_of_process() { return static_cast<process_id_t>(::syscall(SYS_getpid)) == process; }

ThreadSlots& slots_of_this_thread() {
    return *reinterpret_cast<ThreadSlots*>(
        static_cast<char*>(dr_get_dr_segment_base(slots_register)) + slots_offset);
}

void begin_recording(void* context) {
    unsigned index = 0;
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
    // The client's libc has a copy of what the program's libc knows of the thread. If the program
    // has cancelled it already, the client's next wait would unwind it.
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    if (is_of_process()) {
        count_threads(1, -1);
        return begin_recording(context);
    }
    static std::uint64_t nowhere[ThreadRecording::guard + 64 + ThreadRecording::block_limit];
    std::uint64_t* const begin = nowhere + ThreadRecording::guard;
    slots_of_this_thread() = {begin, begin + 64, 0};
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
    tracer->end_thread(recording->index());
    const std::lock_guard lock(threads_mutex);
    recordings[recording->index()] = nullptr;
    delete recording;
}

void finish(int status, int signal = 0) {
    for (ThreadRecording* recording : recordings) {
        if (recording == nullptr) continue;
        recording->drain();
        tracer->untraced_instructions += recording->slots().untraced;
        recording->slots().untraced = 0;
    }
    tracer->finish(status, signal);
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

bool begins_thread(const SystemCall& call) {
    return (call.number == nr::clone || call.number == nr::clone3) &&
           (clone_flags(call) & CLONE_THREAD) != 0;
}

// A process that no exit_group ends has the status of the thread that ends last, as of Linux 5.17.
// The writer's thread would be that thread. DynamoRIO would take the last that it has seen for the
// last of all, so this one waits for young ones; if one never begins, not for ever. Signals that
// come now, or that DynamoRIO has not delivered yet, would be lost with this thread.
void end_thread(void* context) {
    leave_signals_to_others();
    dr_return_signals(context);
    constexpr int longest_wait_ms = 10'000;
    int waited = 0;
    for (Threads now = threads;;) {
        if (now.seen == 1 && now.young > 0 && waited < longest_wait_ms) {
            dr_sleep(1);
            ++waited;
            now = threads;
        } else if (threads.compare_exchange_weak(now, Threads{now.seen - 1, now.young})) {
            if (now.seen == 1) dr_syscall_set_sysnum(context, nr::exit_group);
            return;
        }
    }
}

bool on_system_call(void* context, int number) {
    SystemCall call{number, {}};
    for (int i = 0; i < 6; ++i) call.argument[i] = dr_syscall_get_param(context, i);
    if (number == nr::exit_group || number == nr::exit) {
        exit_status = static_cast<int>(call.argument[0] & 0xff);
        last_signal = 0;
    }
    if (number == nr::exit && is_of_process()) end_thread(context);
    ThreadRecording* recording = recording_of(context);
    if (recording != nullptr) recording->drain();
    // This is as with QEMU: after an execve in a child of vfork, the parent would wait for ever.
    if (number == SYS_vfork) dr_syscall_set_sysnum(context, SYS_fork);
    if (number == nr::execve || number == nr::execveat) on_exec(context, call);
    if (recording == nullptr) return true;
    recording->begins_thread = begins_thread(call);
    if (recording->begins_thread) count_threads(0, 1);
    tracer->system_call(Tracer::vcpu(recording->index()), call);
    if (forks(call) && tracer->hold_writer()) forking = context;
    return true;
}

void on_system_call_return(void* context, int) {
    void* holder = context;
    if (forking.compare_exchange_strong(holder, nullptr)) tracer->let_writer_go();
    ThreadRecording* recording = recording_of(context);
    if (recording == nullptr) return;
    dr_syscall_result_info_t result{};
    result.size = sizeof result;
    if (!dr_syscall_get_result_ex(context, &result)) return;
    Vcpu& vcpu = Tracer::vcpu(recording->index());
    const auto value = static_cast<std::int64_t>(result.value);
    if (std::exchange(recording->begins_thread, false) && value < 0) count_threads(0, -1);
    if (vcpu.thread != nullptr) last_line->written(vcpu.thread->call, value, 0);
    tracer->system_call_returned(vcpu, value);
}

void on_fork(void* context) {
    forking = nullptr;  // the writer's thread is not here
    threads = {1, 0};
    tracer->forked();
    process = static_cast<process_id_t>(::syscall(SYS_getpid));
    ThreadRecording* const own = recording_of(context);
    for (ThreadRecording*& recording : recordings) {
        if (recording != own) recording = nullptr;  // their threads are not here
    }
    if (!options.child_output.empty()) {
        if (own != nullptr) tracer->begin_in_child(own->index());
        wants_writer = true;
    } else {
        report(options.status, "fork");
        stage = Stage::idle;
        dr_delay_flush_region(nullptr, ~std::size_t{0}, 0, nullptr);
    }
}

dr_signal_action_t on_signal(void*, dr_siginfo_t* info) {
    exit_status = 128 + info->sig;
    last_signal = info->sig;
    return DR_SIGNAL_DELIVER;
}

void on_exit() {
    finish(exit_status, last_signal);
    last_line->report_to(options.status);
}

bool owns(std::uint64_t address) {
    auto* const pc = reinterpret_cast<byte*>(address);
    return dr_memory_is_dr_internal(pc) || dr_memory_is_in_client(pc);
}

bool install() {
    drreg_options_t registers{};
    registers.struct_size = sizeof registers;
    registers.num_spill_slots = 5;
    if (!drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drutil_init()) return false;
    if (!dr_raw_tls_calloc(&slots_register, &slots_offset, sizeof(ThreadSlots) / 8, 0))
        return false;
    thread_field = drmgr_register_tls_field();
    auto** const table = static_cast<RecordedBlock const**>(dr_raw_mem_alloc(
        RecordedBlocks::limit * sizeof(void*), DR_MEMPROT_READ | DR_MEMPROT_WRITE, nullptr));
    auto* const code_table = static_cast<std::atomic<const void*>*>(dr_raw_mem_alloc(
        RecordedBlocks::limit * sizeof(void*), DR_MEMPROT_READ | DR_MEMPROT_WRITE, nullptr));
    if (thread_field < 0 || table == nullptr || code_table == nullptr) return false;
    auto* const code =
        new DrainCode(*tracer, ThreadRecording::functions, code_table, options.code_after);
    if (!code->install()) return false;
    blocks = new RecordedBlocks(table, *code);
    const InstrumentationCalls calls{called<on_drain>, called<on_doorbell>, called<on_irregular>,
                                     called<on_begin_function>};
    dr_register_exit_event(on_exit);
    dr_register_fork_init_event(on_fork);
    dr_register_filter_syscall_event([](void*, int) { return true; });
    return Instrumentation::install(*blocks, calls, slots_register, slots_offset) &&
           drmgr_register_thread_init_event(on_thread_begin) &&
           drmgr_register_thread_exit_event(on_thread_end) &&
           drmgr_register_pre_syscall_event(on_system_call) &&
           drmgr_register_post_syscall_event(on_system_call_return) &&
           drmgr_register_signal_event(on_signal);
}

[[noreturn]] void give_up(const std::string& why) {
    report(options.status, "error " + why);
    if (options.status.empty()) dr_fprintf(STDERR, "pagelens: tracer: %s\n", why.c_str());
    dr_exit_process(1);
    std::abort();
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
