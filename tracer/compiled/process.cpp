// The process of a compiled program: when tracing begins and ends, forks, and what it says of
// itself (hooks/pagelens.h).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "tracer/compiled/own.hpp"
#include "tracer/compiled/system_calls.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/status.hpp"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace pagelens {

void find_memory_functions();

namespace {

constexpr const char* options_variable = "PAGELENS_TRACER";

int quick_status = 0;  // as the program gave it to quick_exit
pid_t process = 0;     // which is traced; a child of vfork has its parent's memory

// Fills the thread's shadow stack from its real one: the compiler tells of no calls.
void know_calls(ShadowStack& stack) {
    struct Frames {
        std::array<std::pair<std::uint64_t, std::uint64_t>, 64> frames;  // address, slot
        std::size_t size = 0;
    } found;
    ::_Unwind_Backtrace(
        [](_Unwind_Context* frame, void* given) {
            auto& frames = *static_cast<Frames*>(given);
            if (frames.size == frames.frames.size()) return _URC_END_OF_STACK;
            frames.frames[frames.size++] = {::_Unwind_GetIP(frame), ::_Unwind_GetCFA(frame)};
            return _URC_NO_REASON;
        },
        &found);
    stack.clear();
    while (found.size-- > 0)
        stack.call(found.frames[found.size].first, found.frames[found.size].second);
}

// Tracing is on while a thread is in the region of --region.
void enter_or_leave(const pagelens_record& record) {
    static std::mutex mutex;  // the stage follows the count
    static unsigned inside = 0;
    const std::lock_guard lock(mutex);
    if (record.kind == PAGELENS_REGION_BEGIN) {
        if (inside++ == 0 && stage == Stage::waiting) go_to(Stage::tracing);
    } else if (inside > 0 && --inside == 0 && stage == Stage::tracing) {
        go_to(Stage::waiting);
    }
}

std::vector<std::string> words_of(const char* path) {
    std::ifstream in(path, std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
    return words;
}

// Programs that this one starts, or becomes, have traces of their own.
void set_options_of_children() {
    Options given = options;
    given.starter = 0;
    ++given.program;
    ::setenv(options_variable, plugin_argument(given).c_str(), 1);
}

// A child that is followed goes on with a copy of the tracer, in which no other thread may be at
// work. Any other child needs nothing of it.
bool is_followed() { return stage != Stage::off && !options.child_output.empty(); }

void before_fork() {
    if (!is_followed()) return;
    own.inside.store(own.inside + 1);
    close_gate();
    tracer->report_work();
    tracer->hold_writer();
}
void after_fork() {
    if (!is_followed()) return;
    tracer->let_writer_go();
    open_gate();
    own.inside.store(own.inside - 1);
}
void in_child() {
    if (stage == Stage::off) return;
    gate_keeper = nullptr;
    forget_private_heap();
    tracer->forked();
    forget_other_threads();
    process = ::getpid();
    if (options.child_output.empty() || own.vcpu == nullptr || own.ended) {
        stage = Stage::off;
        pagelens_listens = 0;
        report(options.status, "fork");
    } else {
        tracer->begin_in_child(own.index);
    }
    if (!options.child_output.empty()) own.inside.store(own.inside - 1);
}

Engine engine() {
    return {.producer = "pagelens tracer (compiled in)",
            .guest_base = 0,
            .budget_used = [] { go_to(Stage::finishing); },
            .start_thread = start_thread,
            // Of this library's own mappings nothing is recorded, so they do no harm.
            .owns = [](std::uint64_t) { return false; }};
}

void begin() {
    const Inside inside;
    find_memory_functions();
    find_allocator();
    const char* const text = ::getenv(options_variable);
    if (text == nullptr) return;
    try {
        options = parse_options(text);
        if (options.starter != static_cast<std::uint64_t>(::getppid()))
            options.output = options.child_output;
        std::vector<std::string> command = words_of("/proc/self/cmdline");
        std::array<char, 4096> path{};
        if (::readlink("/proc/self/exe", path.data(), path.size() - 1) > 0 && !command.empty())
            command.front() = path.data();
        set_options_of_children();
        if (options.output.empty()) return report(options.status, "exec " + command.front());
        tracer = new Tracer(options, command, engine());
    } catch (const std::exception& error) {
        report(options.status, std::string("error cannot write the trace: ") + error.what());
        ::_exit(1);
    }
    ::on_exit([](int status, void*) { finish(status & 0xff); }, nullptr);
    ::at_quick_exit([] { finish(quick_status & 0xff); });
    ::pthread_atfork(before_fork, after_fork, in_child);
    stage = !options.region.empty() ? Stage::waiting
            : options.skip > 0      ? Stage::skipping
                                    : Stage::tracing;
    process = ::getpid();
    begun_thread();
    pagelens_listens = 1;
}

}  // namespace

void finish(int status) {
    const Inside inside;
    if (tracer == nullptr || stage == Stage::off || ::getpid() != process) return;
    close_gate();
    stage = Stage::off;
    if (own.vcpu != nullptr && own.vcpu->block != nullptr)
        own.vcpu->left = static_cast<std::int64_t>(own.vcpu->look_at - own.vcpu->accesses());
    pagelens_thread = nullptr;
    tracer->untraced_instructions = missed_accesses();
    tracer->finish(status);
    open_gate();
}

}  // namespace pagelens

using namespace pagelens;

// The interposer and the markers of regions call this (hooks/pagelens.h).
EXPORT void pagelens_tell(const pagelens_record* record) {
    if (own.inside > 0 || stage == Stage::off) return;
    const int saved = errno;
    if (const Inside inside; inside) {
        Vcpu* const vcpu = begun_thread();
        if (vcpu != nullptr && vcpu->thread != nullptr) {
            if (pagelens_thread != nullptr) count(*vcpu);
            if (record->kind == PAGELENS_BIRTH) {
                look_at_heap(*vcpu);
                know_calls(vcpu->thread->stack);
            }
            tracer->doorbell(*vcpu, *record);
            const bool marker =
                record->kind == PAGELENS_REGION_BEGIN || record->kind == PAGELENS_REGION_END;
            if (marker && !options.region.empty() && region_name(0, *record) == options.region) {
                enter_or_leave(*record);
                pagelens_thread = stage == Stage::tracing ? vcpu : nullptr;
            }
        }
    }
    errno = saved;
}

// The first of the program's files that were compiled for tracing calls this before its
// constructors run. A shell that starts the program loads this library, too, and never comes here.
EXPORT void __tsan_init() {
    static std::once_flag begun;
    std::call_once(begun, begin);
}

// What at_quick_exit() has registered learns no status.
EXPORT void quick_exit(int status) noexcept {
    static auto* const real = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_NEXT, "quick_exit"));
    quick_status = status;
    real(status);
    __builtin_unreachable();
}
// These functions end the process without what on_exit() has registered.
EXPORT void _exit(int status) {
    finish(status & 0xff);
    static auto* const real = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_NEXT, "_exit"));
    real(status);
    __builtin_unreachable();
}
EXPORT void _Exit(int status) noexcept { ::_exit(status); }
