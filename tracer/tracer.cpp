#include "tracer/tracer.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "tracer/meminfo.hpp"
#include "tracer/status.hpp"

namespace pagelens {

namespace {

constexpr std::uint64_t instructions_per_stamp = 4096;
constexpr std::uint64_t instructions_per_look = 1 << 16;  // at the budget
constexpr std::uint64_t lines_per_look = 256;             // of a string operation
constexpr std::size_t callers_of_writer = 8;              // that the trace has, at most
constexpr std::uint64_t most_first_writes = 1 << 20;      // the trace has: some 20 MiB

}  // namespace

constinit Tracer::VcpuTable Tracer::table_;

Tracer::Tracer(Options options, std::vector<std::string> command, const Engine& engine)
    : options_(std::move(options)),
      command_(std::move(command)),
      engine_(engine),
      space_{.guest_base = engine.guest_base} {
    open_session();
}

std::uint64_t Tracer::new_memory_id() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(now.count()) ^ static_cast<std::uint64_t>(getpid()) << 40;
}

void Tracer::open_session() {
    TraceHeader header;
    header.exact_for.assign(filter_exact_for.begin(), filter_exact_for.end());
    header.page_filter = filter_page_shape(page_sets_used());
    header.producer = engine_.producer;
    header.bound = options_.bound;
    header.rank = options_.rank;
    header.chosen = options_.chosen;
    header.began = time_of_day();
    if (!command_.empty()) {
        header.program = command_.front();
        header.arguments.assign(command_.begin() + 1, command_.end());
    }
    const std::string& name = in_child() ? options_.child_output : options_.output;
    const std::string path = with_process_id(name, options_.program);
    report(options_.status, "begun " + std::to_string(::getppid()) + " " +
                                path);  // before the file, so that none is unknown
    report(options_.status, "program " + header.program);
    session_ = std::make_unique<Session>(path, header, engine_);
    modules_ = std::make_unique<Modules>(space_.guest_base, [this](const ModuleDefinition& module) {
        if (module.path == options_.function_file) {
            begin_address_ = module.base + options_.function_address;
        }
        session_->writer().define(module);
    });
    sites_ = std::make_unique<CallSites>(
        *modules_, [this](const CallSiteDefinition& site) { session_->writer().define(site); });
}

void Tracer::begin_thread(unsigned index) {
    if (index >= max_vcpus) {
        report(options_.status,
               "error the program has more than " + std::to_string(max_vcpus) + " threads");
        ::_exit(1);
    }
    Vcpu& vcpu = table_.vcpus[index];
    if (vcpu.thread != nullptr) end_thread(index);
    std::construct_at(&vcpu);
    vcpu.strip = Strip(page_sets_used());
    {
        const std::lock_guard lock(mutex_);
        used_ = std::max(used_, index + 1);
        if (threads_.fetch_add(1) > 0) met_ = true;
        vcpu.forgotten = given_back_.size();
    }
    if (finished_) return;
    vcpu.thread = new Thread(session_->begin_thread(), *sites_, *modules_);
    vcpu.write_to(session_->take(vcpu.thread->number));
    if (!std::exchange(files_known_, true)) know_files(vcpu);
    sync(vcpu);
}

void Tracer::end_thread(unsigned index) {
    Vcpu& vcpu = table_.vcpus[index];
    if (vcpu.thread == nullptr) return;
    end_sample(vcpu);
    end_first_writes(vcpu);
    if (vcpu.block != nullptr) {
        sync(vcpu);
        session_->end_thread(vcpu.take_block());
    }
    const std::lock_guard lock(mutex_);
    threads_.fetch_sub(1);
    ended_accesses_ += vcpu.accesses();
    if (const auto since = vcpu.thread->waits_since) waiting_accesses_ += vcpu.accesses() - *since;
    ended_instructions_ += vcpu.instructions();
    delete vcpu.thread;
    vcpu.thread = nullptr;
}

void Tracer::submit(Vcpu& vcpu) {
    session_->put(vcpu.take_block());
    vcpu.write_to(session_->take(vcpu.thread->number));
}

void Tracer::make_room(Vcpu& vcpu, std::size_t records) {
    if (!vcpu.has_room(records)) submit(vcpu);
}

inline bool Tracer::ready(const Vcpu& vcpu) const {
    return vcpu.has_room(Strip::records_per_pass) &&
           vcpu.forgotten == given_back_size_.load(std::memory_order_acquire);
}

inline unsigned Tracer::index_of(const Vcpu& vcpu) {
    return static_cast<unsigned>(&vcpu - table_.vcpus);
}

inline bool Tracer::known_to_be_alone(const Vcpu& vcpu, std::uint64_t address, bool store) const {
    return !met_.load(std::memory_order_relaxed) ||
           shared_lines_->is_known(address >> line_bits, index_of(vcpu), store);
}

// Returns false if nothing is recorded.
bool Tracer::prepare(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return false;
    if (vcpu.forgotten != given_back_size_.load(std::memory_order_acquire)) forget_pages(vcpu);
    make_room(vcpu, Strip::records_per_pass);
    return true;
}

// The common case is a function that calls none, so that no registers are saved.
template <bool store>
void Tracer::pass(Vcpu& vcpu, std::uint64_t address, qemu_plugin_meminfo_t info,
                  AccessPlace place) {
    if (address % line_bytes > line_bytes - 8) [[unlikely]]  // no access is larger
        return crossing(vcpu, address, store, size_of(info), place);
    const unsigned slot = vcpu.strip.slot_of(address >> page_bits);
    if (!ready(vcpu) || slot == Strip::no_slot || vcpu.sampling != nullptr ||
        !known_to_be_alone(vcpu, address, store)) [[unlikely]]
        return pass_line(vcpu, address, store, place);
    vcpu.at = vcpu.strip.pass_in<store>(slot, address, place.later(), vcpu.at);
}

template void Tracer::pass<false>(Vcpu&, std::uint64_t, qemu_plugin_meminfo_t, AccessPlace);
template void Tracer::pass<true>(Vcpu&, std::uint64_t, qemu_plugin_meminfo_t, AccessPlace);

void Tracer::pass_line(Vcpu& vcpu, std::uint64_t address, bool store, AccessPlace place) {
    if (vcpu.sampling != nullptr) vcpu.sampling->access(place, address >> line_bits, store);
    if (!ready(vcpu) && !prepare(vcpu)) return;
    if (store && vcpu.strip.slot_of(address >> page_bits) == Strip::no_slot)
        write_page(vcpu, address >> page_bits, place);
    if (!known_to_be_alone(vcpu, address, store)) return pass_shared(vcpu, address, store, place);
    vcpu.at = vcpu.strip.pass(address, store, place.later(), vcpu.at);
}

// Perhaps another thread uses the line, too. An access to a line that is shared has the thread's
// instruction count before it: the order of threads' accesses decides what they take from each
// other.
void Tracer::pass_shared(Vcpu& vcpu, std::uint64_t address, bool store, AccessPlace place) {
    const std::uint64_t line = address >> line_bits;
    struct Others {
        std::uint64_t line;
        [[nodiscard]] bool holds(unsigned thread) const {
            return table_.vcpus[thread].strip.holds(line);
        }
        [[nodiscard]] static std::uint64_t instructions(unsigned thread) {
            return table_.vcpus[thread].instructions_seen();
        }
        [[nodiscard]] static bool rests(unsigned thread) { return table_.vcpus[thread].rests(); }
    };
    const auto use = shared_lines_->use(line, index_of(vcpu), store, Others{line});
    if (use == SharedLines::Use::alone) {
        vcpu.at = vcpu.strip.pass(address, store, place.later(), vcpu.at);
        return;
    }
    make_room(vcpu, Strip::records_per_pass + 2);
    vcpu.push(make_record(RecordKind::shared, line));
    vcpu.push(vcpu.instructions());
    vcpu.at = vcpu.strip.pass(address, store, place.later(), vcpu.at);
    vcpu.strip.reveal(line);
    if (use == SharedLines::Use::shared) return;
    const std::lock_guard lock(mutex_);
    for (unsigned other = 0; other < used_; ++other) table_.vcpus[other].strip.reveal(line);
}

// Perhaps: the strip did not hide the access as it might have crossed, had it been of 8 bytes.
void Tracer::crossing(Vcpu& vcpu, std::uint64_t address, bool store, unsigned size,
                      AccessPlace place) {
    const auto part = [&](std::uint64_t at) {
        const bool hidden = vcpu.strip.hides(at, store, line_bytes - 1, place.later());
        if (!hidden) pass_line(vcpu, at, store, place);
    };
    part(address);
    if (address % line_bytes + size > line_bytes) {
        vcpu.strip.advance(1);
        part(address + size - 1);
    }
}

void Tracer::stream_store(Vcpu& vcpu, std::uint64_t address, AccessPlace place) {
    if (!ready(vcpu) && !prepare(vcpu)) return;
    if (vcpu.strip.slot_of(address >> page_bits) == Strip::no_slot)
        write_page(vcpu, address >> page_bits, place);
    vcpu.at = vcpu.strip.stream_store(address, place.later(), vcpu.at);
}

// The thread writes to a page that its strip does not hold. Perhaps nobody wrote there before.
void Tracer::write_page(Vcpu& vcpu, std::uint64_t page, AccessPlace place) {
    if (place.block() == 0 || !written_pages_->write(page)) return;
    FirstWriting& now = vcpu.thread->first_writing;
    const ShadowStack& stack = vcpu.thread->stack;
    const std::uint64_t instructions = vcpu.instructions();
    const std::array code{std::uint64_t{place.block()}, place.instruction(), stack.innermost()};
    if (now.code != code || page != now.run.page + now.run.pages) {
        end_first_writes(vcpu);
        if (now.code != code) now.run.writer = writer_id(stack, place);
        now.code = code;
        now.run.thread = vcpu.thread->number;
        now.run.first_instruction = instructions;
        now.run.page = page;
    }
    ++now.run.pages;
    now.run.last_instruction = instructions;
}

void Tracer::end_first_writes(Vcpu& vcpu) {
    FirstWrites& run = vcpu.thread->first_writing.run;
    if (run.pages != 0 && runs_of_first_writes_++ < most_first_writes)
        session_->writer().define(run);
    run.pages = 0;
}

std::uint64_t Tracer::writer_id(const ShadowStack& stack, AccessPlace place) {
    WriterDefinition writer{0, place.block(), place.instruction(), {}};
    std::array<std::uint64_t, callers_of_writer> callers;
    const std::size_t depth = stack.snapshot(callers);
    writer.return_addresses.assign(callers.begin(), callers.begin() + depth);
    std::vector<std::uint64_t> key = writer.return_addresses;
    key.push_back(writer.block);
    key.push_back(writer.instruction);
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = writers_.try_emplace(std::move(key), writers_.size() + 1);
    if (is_new) {
        writer.id = known->second;
        code_.define_new(std::array{writer.block}, [this](const CodeBlockDefinition& block) {
            session_->writer().define(block);
        });
        session_->writer().define(writer);
    }
    return known->second;
}

void Tracer::look(Vcpu& vcpu, std::uint32_t block) {
    if (vcpu.sampling != nullptr) {
        if (block != 0 && vcpu.instructions() <= vcpu.thread->look_due) {
            vcpu.sampling->block(block);
            return vcpu.look_in(0);
        }
        end_sample(vcpu);
    }
    if (vcpu.at != vcpu.stamped) stamp(vcpu);
    if (session_->writer().error() != 0) return engine_.budget_used();
    std::uint64_t next = instructions_per_stamp;
    if (options_.accesses != 0) {
        if (vcpu.instructions() >= vcpu.budget_at) {
            const std::uint64_t left = budget_left();
            if (left == 0) {
                budget_used_ = true;
                return engine_.budget_used();
            }
            vcpu.budget_at =
                vcpu.instructions() + std::clamp(left / std::max(threads_.load(), 1u),
                                                 std::uint64_t{1}, instructions_per_look);
        }
        next = std::min(next, vcpu.budget_at - vcpu.instructions());
    }
    vcpu.look_in(static_cast<std::int64_t>(next));
    if (block == 0 || vcpu.block == nullptr || !vcpu.thread->sampler.due(vcpu.instructions()))
        return;
    vcpu.sampling = &vcpu.thread->sampler;
    vcpu.sampling->begin(vcpu.thread->number, vcpu.instructions());
    vcpu.sampling->block(block);
    vcpu.thread->look_due = vcpu.look_at;
    vcpu.look_in(0);
}

// Writes the sample taken so far, and looks at the thread when the tracer would have without it.
void Tracer::end_sample(Vcpu& vcpu) {
    if (vcpu.sampling == nullptr) return;
    const InstructionSample sample = std::exchange(vcpu.sampling, nullptr)->end();
    code_.define_new(sample.blocks, [this](const CodeBlockDefinition& block) {
        session_->writer().define(block);
    });
    session_->writer().define(sample);
    const std::uint64_t due = vcpu.thread->look_due;
    vcpu.look_in(static_cast<std::int64_t>(due) - static_cast<std::int64_t>(vcpu.instructions()));
}

void Tracer::enter_phase(Vcpu& vcpu) {
    end_sample(vcpu);
    const std::vector<std::uint64_t>& open = vcpu.thread->phases;
    vcpu.thread->sampler.enter_phase(open.empty() ? 0 : open.back(), vcpu.instructions());
}

// Each element passes through the strip, so that the records are those of a loop over the elements.
void Tracer::string_access(Vcpu& vcpu, std::uint64_t address, bool store, unsigned size,
                           std::uint64_t made) {
    auto& string = vcpu.string;
    const auto is_new = [&](std::uint64_t at) {
        const std::uint64_t line = at / line_bytes << 1 | std::uint64_t{store};
        if (line == string.lines[0] || line == string.lines[1]) return false;
        string.lines[0] = std::exchange(string.lines[1], line);
        return true;
    };
    std::uint64_t lines = is_new(address);
    lines += is_new(address + size - 1);
    vcpu.same_line += made - lines;
    string.since_look += lines;
    if (string.since_look < lines_per_look) return;
    string.since_look = 0;
    vcpu.budget_at = vcpu.instructions();  // one instruction made all these accesses
    look(vcpu);
}

// The instruction count, if there are records since the last one.
void Tracer::stamp(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return;
    make_room(vcpu, 1);
    vcpu.push(make_record(RecordKind::instructions, vcpu.instructions()));
    vcpu.stamped = vcpu.at;
}

// Accesses of all threads, but those of waiting for other processes.
std::uint64_t Tracer::accesses_of_work() const {
    std::uint64_t seen = ended_accesses_, waiting = waiting_accesses_;
    for (unsigned i = 0; i < used_; ++i) {
        const Vcpu& vcpu = table_.vcpus[i];
        if (vcpu.thread == nullptr) continue;
        seen += vcpu.accesses();
        if (const auto since = vcpu.thread->waits_since) waiting += vcpu.accesses() - *since;
    }
    return seen - std::min(seen, waiting);
}

// Accesses that are left of the program's budget. The sooner it is looked at the less is left: few
// instructions make more than one.
std::uint64_t Tracer::budget_left() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t seen = accesses_of_work();
    return options_.accesses - std::min(seen, options_.accesses);
}

void Tracer::report_work() {
    if (finished_ || options_.child_output.empty()) return;
    const std::lock_guard lock(mutex_);
    report(options_.status, "made " + std::to_string(accesses_of_work()));
}

void Tracer::stop_recording() {
    for (unsigned i = 0; i < used_; ++i) stop_recording(table_.vcpus[i]);
}

void Tracer::stop_recording(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return;
    end_sample(vcpu);
    end_first_writes(vcpu);
    make_room(vcpu, 1);
    vcpu.push(make_record(RecordKind::instructions, vcpu.instructions()));
    session_->put(vcpu.take_block());
}

void Tracer::finish(std::int32_t exit_status, int signal) {
    if (finished_) return;
    finished_ = true;
    stop_recording();
    TraceSummary summary;
    summary.instructions = ended_instructions_;
    summary.accesses = accesses_of_work();
    for (unsigned i = 0; i < used_; ++i) {
        if (table_.vcpus[i].thread == nullptr) continue;
        summary.instructions += table_.vcpus[i].instructions();
    }
    summary.total_instructions = summary.instructions + untraced_instructions;
    summary.exit_status = exit_status;
    TraceEnd end;
    if (budget_used_) {
        end = {EndKind::budget, options_.accesses};
    } else if (signal != 0) {
        end = {EndKind::signal, static_cast<std::uint64_t>(signal)};
    }
    end.time = time_of_day();
    const int error = session_->finish(summary, end);
    report(options_.status, "finished " + std::to_string(error) + " " +
                                std::to_string(summary.accesses) + " " +
                                std::to_string(summary.instructions) + " " +
                                std::to_string(*summary.total_instructions));
}

void Tracer::hold_locks() {
    mutex_.lock();
    code_.lock();
    space_.advice.lock();
    space_.page_cache.lock();
}

void Tracer::let_locks_go() {
    space_.page_cache.unlock();
    space_.advice.unlock();
    code_.unlock();
    mutex_.unlock();
}

void Tracer::forked() {
    in_child_ = true;
    finished_ = true;
    options_.program = 0;  // the next one is the first of its process
    session_->abandon();
    for (unsigned i = 0; i < used_; ++i) {
        if (table_.vcpus[i].block != nullptr) table_.vcpus[i].take_block();
    }
}

void Tracer::begin_in_child(unsigned index) {
    // The state of the parent's threads stays behind: their memory is a copy, and they do not exist
    // here.
    options_.program = 1;  // of a new process
    session_.release();
    sites_.release();
    modules_.release();
    code_.forget_definitions();
    for (unsigned i = 0; i < used_; ++i) std::construct_at(&table_.vcpus[i]);
    ended_accesses_ = ended_instructions_ = untraced_instructions = 0;
    waiting_accesses_ = 0;
    threads_ = 0;
    met_ = false;
    phases_.clear();
    writers_.clear();
    runs_of_first_writes_ = 0;
    written_pages_ = std::make_unique<WrittenPages>();
    heap_known_ = 0;
    files_known_ = false;
    budget_used_ = finished_ = false;
    open_session();
    space_.page_cache.name_anew();
    begin_thread(index);
    know_inherited(table_.vcpus[index]);
    know_advice(table_.vcpus[index]);
}

}  // namespace pagelens
