// The QEMU plugin: its installation, its stages, and what happens to threads, at system calls and
// at the end. What instructions are called back for is in translation.cpp; what then happens is the
// Tracer's.
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tracer/follow_exec.hpp"
#include "tracer/last_line.hpp"
#include "tracer/qemu_plugin_api.h"
#include "tracer/self_test.hpp"
#include "tracer/stage.hpp"
#include "tracer/status.hpp"
#include "tracer/tracer.hpp"
#include "tracer/translation.hpp"

extern "C" {
[[gnu::visibility("default")]] extern int qemu_plugin_version;
int qemu_plugin_version = PAGELENS_QEMU_PLUGIN_VERSION;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info,
                                                       int argc, char** argv);
[[gnu::visibility("default")]] int kill(pid_t pid, int signal) noexcept;
}

namespace pagelens {
namespace {

qemu_plugin_id_t plugin_id;
int exit_status = 0;  // as the program gave it to exit_group
LastLine* last_line = nullptr;

void register_callbacks(qemu_plugin_id_t id);

// QEMU before 8.0 may leave a CPU with a pointer to the callbacks of an instruction that has left
// its block half-way, and follows it after the translations, and the callbacks with them, are gone.
// Called whenever translations go, with all threads stopped.
void drop_stale_callbacks(qemu_plugin_id_t) {
    if (tracer == nullptr) return;
    for (unsigned index = 0; index < tracer->vcpus_used(); ++index) {
        if (void* cpu = tracer->vcpu(index).cpu) qemu_plugin_disable_mem_helpers(cpu);
    }
}

void start();

void on_translation(qemu_plugin_id_t, qemu_plugin_tb* block) {
    if (tracer == nullptr) start();
    add_callbacks(block);
}

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
    last_line->report_to(options.status);
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
    if (tracer->vcpu(index).thread != nullptr)
        last_line->written(tracer->vcpu(index).thread->call, result, guest_base);
    tracer->system_call_returned(tracer->vcpu(index), result);
}

void on_exit(qemu_plugin_id_t, void*) {
    if (tracer == nullptr) return;
    tracer->finish(exit_status);
    last_line->report_to(options.status);
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

// The program's signals are for its own threads.
bool start_thread(void (*work)(void*), void* argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(work, argument).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return true;
}

// Runs at the first translation, because only now is it known where guest memory is.
void start() try {
    const Engine qemu{
        .producer = "pagelens tracer (QEMU user mode)",
        .guest_base = guest_base,
        .budget_used = [] { go_to(Stage::tracing, Stage::finishing); },
        .start_thread = start_thread,
        .owns = [](std::uint64_t) { return false; },
    };
    tracer = new Tracer(options, guest_command(), qemu);
    self_test = new SelfTest(guest_base);
    tracer->begin_thread(0);
    tracer->vcpu(0).cpu = current_cpu;
    // QEMU stops the threads that run code, and not those within system calls.
    const auto let_go = [] { tracer->let_locks_go(); };
    pthread_atfork([] { tracer->hold_locks(); }, let_go,
                   [] {
                       tracer->let_locks_go();
                       tracer->forked();
                   });
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
    if (!options.function_file.empty() || !options.region.empty()) {
        stage = Stage::waiting;
    } else if (options.skip > 0) {
        stage = Stage::skipping;
    }
    plugin_id = id;
    last_line = new LastLine();
    register_callbacks(id);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "pagelens: tracer: %s\n", error.what());
    return 1;
}

}  // namespace

void go_to(Stage from, Stage to) {
    if (!stage.compare_exchange_strong(from, to)) return;
    qemu_plugin_reset(plugin_id, [](qemu_plugin_id_t id) {
        if (stage == Stage::finishing) tracer->stop_recording();
        drop_stale_callbacks(id);
        register_callbacks(id);
    });
}

void give_up(const std::string& why) {
    report(options.status, "error " + why);
    std::_Exit(1);
}

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
        // For signals that dump core, QEMU has stopped all threads itself, and would wait for
        // itself.
        const bool stopped = signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
                             signal == SIGQUIT || signal == SIGSEGV || signal == SIGTRAP ||
                             signal == SIGBUS;
        if (!stopped) start_exclusive();
        pagelens::tracer->finish(128 + signal, signal);
        pagelens::last_line->report_to(pagelens::options.status);
        if (!stopped) end_exclusive();
    }
    return static_cast<int>(::syscall(SYS_kill, pid, signal));
}
