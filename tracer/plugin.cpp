// The QEMU plugin: what is called when, and what it is called on. Everything that happens then is
// the Tracer's.
//
// It goes through stages; between two of them QEMU drops its translations (qemu_plugin_reset), so
// that each stage pays for its own callbacks only:
//   waiting   until the function of --from-function is called, and outside the region of --region:
//             calls, returns, doorbells
//   skipping  --skip accesses are counted
//   tracing   every access
//   finishing the budget is used up: instructions are counted in line
//   idle      an untraced child: system calls alone
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tracer/decode.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/follow_exec.hpp"
#include "tracer/guest_memory.hpp"
#include "tracer/qemu_plugin_api.h"
#include "tracer/self_test.hpp"
#include "tracer/status.hpp"
#include "tracer/tracer.hpp"

extern "C" {
// QEMU's own, beside the plugin interface.
extern std::uintptr_t guest_base;   // where guest address 0 is
extern __thread void* current_cpu;  // this thread's CPUState
void start_exclusive(void);         // waits until no other thread runs the program
void end_exclusive(void);
void qemu_plugin_disable_mem_helpers(void* cpu);
[[gnu::visibility("default")]] extern int qemu_plugin_version;
int qemu_plugin_version = PAGELENS_QEMU_PLUGIN_VERSION;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info,
                                                       int argc, char** argv);
[[gnu::visibility("default")]] int kill(pid_t pid, int signal) noexcept;
}

namespace pagelens {
namespace {

enum class Stage { waiting, skipping, tracing, finishing, idle };

qemu_plugin_id_t plugin_id;
Options options;
Tracer* tracer = nullptr;  // from the first translation on; never deleted
std::atomic<Stage> stage{Stage::tracing};
std::atomic<std::uint64_t> left_to_skip{0};
SelfTest* self_test = nullptr;  // likewise
int exit_status = 0;            // as the program gave it to exit_group

unsigned size_of(qemu_plugin_meminfo_t info) { return 1u << (info >> 4 & 7); }
unsigned is_store(qemu_plugin_meminfo_t info) { return info >> 17; }  // bits above are not in use

// Of an atomic instruction the info says both. Where such an instruction has no callback of its own
// (Stage::waiting), 7.2 may call that of the call or ret before it.
bool is_store_alone(qemu_plugin_meminfo_t info) { return (info >> 16 & 3) == 2; }
bool is_load_alone(qemu_plugin_meminfo_t info) { return (info >> 16 & 3) == 1; }

// What a block of instructions counts for: all of them, and the accesses that it is certain to
// make.
struct BlockCount {
    std::uint32_t instructions, accesses;
};

void* pack(BlockCount count) { return std::bit_cast<void*>(count); }
BlockCount unpack(void* data) { return std::bit_cast<BlockCount>(data); }
void* as_data(std::uint64_t value) { return reinterpret_cast<void*>(value); }
std::uint64_t as_number(void* data) { return reinterpret_cast<std::uint64_t>(data); }

void register_callbacks(qemu_plugin_id_t id);

[[noreturn]] void give_up(const std::string& why) {
    report(options.status, "error " + why);
    std::_Exit(1);
}

// QEMU before 8.0 may leave a CPU with a pointer to the callbacks of an instruction that has left
// its block half-way, and follows it after the translations, and the callbacks with them, are gone.
// Called whenever translations go, with all threads stopped.
void drop_stale_callbacks(qemu_plugin_id_t) {
    if (tracer == nullptr) return;
    for (unsigned index = 0; index < tracer->vcpus_used(); ++index) {
        if (void* cpu = tracer->vcpu(index).cpu) qemu_plugin_disable_mem_helpers(cpu);
    }
}

// From any thread of the program; the first one to ask for a stage gets it.
void go_to(Stage from, Stage to) {
    if (!stage.compare_exchange_strong(from, to)) return;
    qemu_plugin_reset(plugin_id, [](qemu_plugin_id_t id) {
        if (stage == Stage::finishing) tracer->stop_recording();
        drop_stale_callbacks(id);
        register_callbacks(id);
    });
}

// --- accesses -----------------------------------------------------------------------------------

// An access of at most `size` bytes, for which time has advanced.
[[gnu::always_inline]] inline void access(Vcpu& vcpu, std::uint64_t address, unsigned store,
                                          unsigned size, qemu_plugin_meminfo_t info,
                                          std::uint64_t later) {
    if (vcpu.strip.hides(address, store, line_bytes - size, later)) [[likely]]
        return;
    tracer->pass(vcpu, address, store, size_of(info), later);
}

// An access that the block was not certain to make. No access is larger than 8 bytes: larger ones
// come in pieces.
[[gnu::always_inline]] inline void uncertain_access(Vcpu& vcpu, std::uint64_t address,
                                                    qemu_plugin_meminfo_t info,
                                                    std::uint64_t later = 0) {
    vcpu.strip.advance(1);
    access(vcpu, address, is_store(info), 8, info, later);
}

// `data`: how many of the block's certain accesses come later, of those that have been counted.
void on_uncertain_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                         void* data) {
    uncertain_access(tracer->vcpu(index), address, info, as_number(data));
}

// The operand of a scalar FMA, and the 8 bytes after it that no processor reads.
void on_wide_fma(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (std::exchange(vcpu.unread, address + 8) == address) {
        vcpu.unread = 0;
    } else {
        uncertain_access(vcpu, address, info, as_number(data));
    }
}

// `data`: the same.
template <bool store, unsigned size>
void on_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    access(tracer->vcpu(index), address, store, size, info, as_number(data));
}

// The first of the block's certain accesses. `data`: what the block counts for.
template <bool store, unsigned size>
void on_counting_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                        void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    const BlockCount count = unpack(data);
    vcpu.instructions += count.instructions;
    vcpu.strip.advance(count.accesses);
    access(vcpu, address, store, size, info, count.accesses - 1);
}

template <bool counting, bool store>
qemu_plugin_vcpu_mem_cb_t callback_of_size(unsigned size) {
    switch (size) {
        case 1:
            return counting ? on_counting_access<store, 1> : on_access<store, 1>;
        case 4:
            return counting ? on_counting_access<store, 4> : on_access<store, 4>;
        default:
            return counting ? on_counting_access<store, 8> : on_access<store, 8>;
    }
}

void on_stream_store(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    vcpu.strip.advance(1);
    tracer->stream_store(vcpu, address, as_number(data));
}

void on_block(unsigned index, void* data) {
    tracer->vcpu(index).instructions += unpack(data).instructions;
}

void on_skipped_access(unsigned, qemu_plugin_meminfo_t, std::uint64_t, void*) {
    if (left_to_skip.fetch_sub(1, std::memory_order_relaxed) == 1) {
        go_to(Stage::skipping, Stage::tracing);
    }
}

// --- calls, returns, doorbells ------------------------------------------------------------------

// `data`: the return address.
void on_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (vcpu.thread == nullptr) return;
    if (is_store_alone(info)) {
        vcpu.thread->stack.call(as_number(data), address);
        if (!vcpu.thread->stack_known) tracer->know_stack(vcpu, address);
    }
    if (stage == Stage::tracing) uncertain_access(vcpu, address, info);
}

void on_return(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (vcpu.thread == nullptr) return;
    if (is_load_alone(info)) vcpu.thread->stack.ret(address);
    if (stage == Stage::tracing) uncertain_access(vcpu, address, info);
}

// Until the self-test has passed calls have these callbacks, the first before the call runs.
void expect(const char* fault) {
    if (fault == nullptr) return;
    give_up(std::string("this QEMU does not report what the tracer needs (") + fault +
            "); use QEMU 7.2, as Debian 12 has it in qemu-user");
}

void on_tested_call_begins(unsigned, void*) { expect(self_test->call_begins()); }

void on_tested_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    if (!self_test->passed()) expect(self_test->accessed(info, address, as_number(data)));
    on_call(index, info, address, data);
}

// Tracing is on while a thread is in the region of --region.
void enter_or_leave(const pagelens_record& record) {
    static std::mutex mutex;  // the stage follows the count
    static unsigned inside = 0;
    const std::lock_guard lock(mutex);
    if (record.kind == PAGELENS_REGION_BEGIN) {
        if (inside++ == 0) go_to(Stage::waiting, Stage::tracing);
    } else if (inside > 0 && --inside == 0) {
        go_to(Stage::tracing, Stage::waiting);
    }
}

void on_doorbell(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void*) {
    const pagelens_record record = read_record(guest_base, address);
    tracer->doorbell(tracer->vcpu(index), record);
    const bool marker = record.kind == PAGELENS_REGION_BEGIN || record.kind == PAGELENS_REGION_END;
    if (marker && !options.region.empty() && region_name(guest_base, record) == options.region) {
        enter_or_leave(record);
    }
}

void on_begin_function(unsigned, void*) {
    go_to(Stage::waiting, options.skip > 0 ? Stage::skipping : Stage::tracing);
}

// The bytes are read anew: QEMU stops reading an instruction where it ceases to know it.
void on_avx512(unsigned, void* address) {
    std::array<std::byte, 15> bytes;  // the longest instruction
    const std::size_t count = read_guest(guest_base, as_number(address), bytes);
    char text[64];
    int length = std::snprintf(text, sizeof text, "avx512 %lx ", as_number(address));
    for (std::size_t i = 0; i < count; ++i) {
        length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length),
                                "%02x", static_cast<unsigned>(bytes[i]));
    }
    report(options.status, text);
}

// --- translation --------------------------------------------------------------------------------

void on_memory(qemu_plugin_insn* instruction, qemu_plugin_vcpu_mem_cb_t callback,
               void* data = nullptr) {
    qemu_plugin_register_vcpu_mem_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, data);
}

std::span<const std::uint8_t> bytes_of(const qemu_plugin_insn* instruction) {
    return {static_cast<const std::uint8_t*>(qemu_plugin_insn_data(instruction)),
            qemu_plugin_insn_size(instruction)};
}

// Calls, returns and doorbells, though they make one access, have callbacks of their own.
BlockCount count_of(const qemu_plugin_tb* block) {
    BlockCount count{static_cast<std::uint32_t>(qemu_plugin_tb_n_insns(block)), 0};
    for (std::size_t i = 0; i < count.instructions; ++i) {
        const auto bytes = bytes_of(qemu_plugin_tb_get_insn(block, i));
        count.accesses += decode(bytes).one_access && !is_doorbell(bytes.data(), bytes.size()) &&
                          classify_branch(bytes.data(), bytes.size()) == Branch::none;
    }
    return count;
}

template <bool counting>
qemu_plugin_vcpu_mem_cb_t access_callback(const Instruction& instruction) {
    return instruction.store ? callback_of_size<counting, true>(instruction.size)
                             : callback_of_size<counting, false>(instruction.size);
}

void watch_avx512(qemu_plugin_insn* instruction) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_avx512, QEMU_PLUGIN_CB_NO_REGS,
                                           as_data(qemu_plugin_insn_vaddr(instruction)));
}

void start();

void on_translation(qemu_plugin_id_t, qemu_plugin_tb* block) {
    if (tracer == nullptr) start();
    const std::size_t size = qemu_plugin_tb_n_insns(block);
    const Stage now = stage;
    if (now != Stage::tracing) {
        qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64,
                                                 &tracer->untraced_instructions, size);
    }
    if (now == Stage::finishing || now == Stage::idle) {
        for (std::size_t i = 0; i < size; ++i) {
            qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
            if (decode(bytes_of(instruction)).avx512) watch_avx512(instruction);
        }
        return;
    }

    const auto module =
        tracer->modules().find(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)));
    const bool ours = module && module->role == ModuleRole::hooks;
    const bool tracing = now == Stage::tracing && !ours;
    const BlockCount count = tracing ? count_of(block) : BlockCount{};
    const bool counts = count.accesses == 0 && tracing;  // without an access that does
    if (counts) {
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, pack(count));
    }
    bool counted = false;
    std::uint32_t later = 0;  // certain accesses of the block that are counted, and come later
    for (std::size_t i = 0; i < size; ++i) {
        qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
        const auto bytes = bytes_of(instruction);
        const std::uint64_t address = qemu_plugin_insn_vaddr(instruction);
        const Instruction decoded = decode(bytes);
        if (now == Stage::waiting && address == tracer->begin_address()) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_begin_function,
                                                   QEMU_PLUGIN_CB_NO_REGS, nullptr);
        }
        if (decoded.avx512) watch_avx512(instruction);
        if (is_doorbell(bytes.data(), bytes.size())) {
            on_memory(instruction, on_doorbell);
        } else if (const Branch branch = classify_branch(bytes.data(), bytes.size());
                   branch == Branch::call) {
            void* const return_address = as_data(address + bytes.size());
            if (self_test->passed()) {
                on_memory(instruction, on_call, return_address);
            } else {
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_tested_call_begins,
                                                       QEMU_PLUGIN_CB_NO_REGS, nullptr);
                on_memory(instruction, on_tested_call, return_address);
            }
        } else if (branch == Branch::ret) {
            on_memory(instruction, on_return);
        } else if (ours || decoded.no_access) {
            continue;
        } else if (now == Stage::skipping) {
            on_memory(instruction, on_skipped_access);
        } else if (now == Stage::tracing) {
            if (decoded.non_temporal_store) {
                on_memory(instruction, on_stream_store, as_data(later));
            } else if (decoded.scalar_fma && options.wide_fma != 0) {
                on_memory(instruction, on_wide_fma, as_data(later));
            } else if (!decoded.one_access) {
                on_memory(instruction, on_uncertain_access, as_data(later));
            } else if (!counted) {
                counted = true;
                later = count.accesses - 1;
                on_memory(instruction, access_callback<true>(decoded), pack(count));
            } else {
                on_memory(instruction, access_callback<false>(decoded), as_data(--later));
            }
        }
    }
}

// --- threads, system calls, the end -------------------------------------------------------------

void on_thread_begin(qemu_plugin_id_t, unsigned index) {
    if (tracer != nullptr) tracer->begin_thread(index);
}

void on_thread_end(qemu_plugin_id_t, unsigned index) {
    if (tracer != nullptr) tracer->end_thread(index);
}

void on_exec(const SystemCall& call) {
    const ExecRequest request = exec_request(call, guest_base, tracer->program());
    if (!request.runs) return;  // the call fails and the program goes on
    start_exclusive();          // other threads run until exec ends them
    tracer->finish(0);
    end_exclusive();
    if (request.traceable && !options.child_output.empty()) {
        exec_traced(request, tracer->options());
    }
    report(options.status, "exec " + request.path);
}

void on_system_call(qemu_plugin_id_t, unsigned index, std::int64_t number, std::uint64_t a1,
                    std::uint64_t a2, std::uint64_t a3, std::uint64_t a4, std::uint64_t a5,
                    std::uint64_t a6, std::uint64_t, std::uint64_t) {
    if (tracer == nullptr) return;
    const SystemCall call{number, {a1, a2, a3, a4, a5, a6}};
    if (number == nr::exit_group || number == nr::exit) exit_status = static_cast<int>(a1 & 0xff);
    if (number == nr::execve || number == nr::execveat) on_exec(call);
    tracer->vcpu(index).cpu = current_cpu;
    tracer->system_call(tracer->vcpu(index), call);
}

void on_system_call_return(qemu_plugin_id_t, unsigned index, std::int64_t number,
                           std::int64_t result) {
    if (tracer == nullptr) return;
    const bool forks =
        number == nr::clone || number == nr::clone3 || number == nr::fork || number == nr::vfork;
    if (forks && result == 0 && tracer->in_child()) {
        if (!options.child_output.empty()) {
            tracer->begin_in_child(index);
        } else {
            report(options.status, "fork");
            go_to(stage, Stage::idle);
        }
        return;
    }
    tracer->system_call_returned(tracer->vcpu(index), result);
}

void on_exit(qemu_plugin_id_t, void*) {
    if (tracer != nullptr) tracer->finish(exit_status);
}

void register_callbacks(qemu_plugin_id_t id) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_flush_cb(id, drop_stale_callbacks);
    qemu_plugin_register_vcpu_init_cb(id, on_thread_begin);
    qemu_plugin_register_vcpu_exit_cb(id, on_thread_end);
    qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_system_call_return);
    qemu_plugin_register_atexit_cb(id, on_exit, nullptr);
}

// The program and its arguments: what follows QEMU's own options, each of which has a value.
std::vector<std::string> guest_command() {
    std::ifstream in("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
    std::size_t at = 1;
    while (at + 1 < words.size() && words[at].starts_with('-')) at += 2;
    words.erase(words.begin(),
                words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())));
    return words;
}

// At the first translation: only now is it known where guest memory is.
void start() try {
    tracer = new Tracer(options, guest_command(), guest_base,
                        [] { go_to(Stage::tracing, Stage::finishing); });
    self_test = new SelfTest(guest_base);
    tracer->begin_thread(0);
    tracer->vcpu(0).cpu = current_cpu;
    pthread_atfork(nullptr, nullptr, [] { tracer->forked(); });
} catch (const std::exception& error) {
    give_up(std::string("cannot write the trace: ") + error.what());
}

int install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) try {
    constexpr int version = PAGELENS_QEMU_PLUGIN_VERSION;
    if (version < info->version.min || version > info->version.cur) {
        std::fprintf(stderr,
                     "pagelens: this QEMU has plugin interface %d to %d, the tracer needs %d: use "
                     "QEMU 7.2 to 8.2\n",
                     info->version.min, info->version.cur, version);
        return 1;
    }
    if (info->system_emulation || std::string(info->target_name) != "x86_64") {
        std::fprintf(stderr, "pagelens: the tracer needs qemu-x86_64, the user-mode emulator\n");
        return 1;
    }
    options = parse_options(argc, argv);
    left_to_skip = options.skip;
    if (!options.function_file.empty() || !options.region.empty()) {
        stage = Stage::waiting;
    } else if (options.skip > 0) {
        stage = Stage::skipping;
    }
    plugin_id = id;
    register_callbacks(id);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "pagelens: tracer: %s\n", error.what());
    return 1;
}

}  // namespace
}  // namespace pagelens

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) {
    return pagelens::install(id, info, argc, argv);
}

// The library is also preloaded into QEMU itself, for this: a program that dies of a signal takes
// QEMU along by kill(), without a word to plugins. (What the program itself kills goes another
// way.)
int kill(pid_t pid, int signal) noexcept {
    struct sigaction action{};
    if (pid == ::getpid() && pagelens::tracer != nullptr && signal != 0 &&
        ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
        // For signals that dump core QEMU has stopped all threads itself, and would wait for
        // itself.
        const bool stopped = signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
                             signal == SIGQUIT || signal == SIGSEGV || signal == SIGTRAP ||
                             signal == SIGBUS;
        if (!stopped) start_exclusive();
        pagelens::tracer->finish(128 + signal);
        if (!stopped) end_exclusive();
    }
    return static_cast<int>(::syscall(SYS_kill, pid, signal));
}
