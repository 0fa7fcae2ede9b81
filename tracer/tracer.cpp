#include "tracer/tracer.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>

#include "tracer/doorbell.hpp"
#include "tracer/meminfo.hpp"
#include "tracer/status.hpp"

namespace pagelens {

namespace {

constexpr std::uint64_t instructions_per_stamp = 4096;
constexpr std::uint64_t instructions_per_look = 1 << 16;  // at the budget

// The mapping of this process that holds host address `address`: [start, end), or {0, 0}.
std::pair<std::uint64_t, std::uint64_t> mapping_at(std::uint64_t address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx", &start, &end) == 2 && start <= address &&
            address < end) {
            return {start, end};
        }
    }
    return {0, 0};
}

bool wakes(std::uint64_t futex_operation) {
    switch (futex_operation & 127) {
        case 1:
        case 3:
        case 4:
        case 5:
        case 7:
        case 10:
            return true;  // wake, requeue, unlock ...
        default:
            return false;
    }
}

}  // namespace

constinit Tracer::VcpuTable Tracer::table_;

Tracer::Tracer(Options options, std::vector<std::string> command, std::uint64_t guest_base,
               void (*budget_used)())
    : options_(std::move(options)),
      command_(std::move(command)),
      guest_base_(guest_base),
      budget_used_(budget_used) {
    open_session();
}

void Tracer::open_session() {
    TraceHeader header;
    header.exact_for.assign(filter_exact_for.begin(), filter_exact_for.end());
    header.page_filter = filter_page_shape(page_sets_used());
    header.producer = "pagelens tracer (QEMU user mode)";
    if (!command_.empty()) {
        header.program = command_.front();
        header.arguments.assign(command_.begin() + 1, command_.end());
    }
    const std::string& name = in_child() ? options_.child_output : options_.output;
    const std::string path = with_process_id(name, options_.program);
    report(options_.status, "begun " + path);  // before the file, so that none is unknown
    session_ = std::make_unique<Session>(path, header);
    modules_ = std::make_unique<Modules>(guest_base_, [this](const ModuleDefinition& module) {
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
    sync(vcpu);
}

void Tracer::end_thread(unsigned index) {
    Vcpu& vcpu = table_.vcpus[index];
    if (vcpu.thread == nullptr) return;
    if (vcpu.block != nullptr) {
        sync(vcpu);
        session_->end_thread(vcpu.take_block());
    }
    const std::lock_guard lock(mutex_);
    threads_.fetch_sub(1);
    ended_accesses_ += vcpu.strip.accesses();
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

// False: nothing is recorded.
bool Tracer::prepare(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return false;
    if (vcpu.forgotten != given_back_size_.load(std::memory_order_acquire)) forget_pages(vcpu);
    make_room(vcpu, Strip::records_per_pass);
    return true;
}

// What is mostly so is a function that calls none, so that no registers are saved.
template <bool store>
void Tracer::pass(Vcpu& vcpu, std::uint64_t address, qemu_plugin_meminfo_t info,
                  std::uint64_t later) {
    if (address % line_bytes > line_bytes - 8) [[unlikely]]  // no access is larger
        return crossing(vcpu, address, store, size_of(info), later);
    const unsigned slot = vcpu.strip.slot_of(address >> page_bits);
    if (!ready(vcpu) || slot == Strip::no_slot) [[unlikely]]
        return pass_line(vcpu, address, store, later);
    vcpu.at = vcpu.strip.pass_in<store>(slot, address, later, vcpu.at);
}

template void Tracer::pass<false>(Vcpu&, std::uint64_t, qemu_plugin_meminfo_t, std::uint64_t);
template void Tracer::pass<true>(Vcpu&, std::uint64_t, qemu_plugin_meminfo_t, std::uint64_t);

void Tracer::pass_line(Vcpu& vcpu, std::uint64_t address, bool store, std::uint64_t later) {
    if (ready(vcpu) || prepare(vcpu)) vcpu.at = vcpu.strip.pass(address, store, later, vcpu.at);
}

// Perhaps: the strip did not hide the access as it might have crossed, had it been of 8 bytes.
void Tracer::crossing(Vcpu& vcpu, std::uint64_t address, bool store, unsigned size,
                      std::uint64_t later) {
    const auto part = [&](std::uint64_t at) {
        const bool hidden = vcpu.strip.hides(at, store, line_bytes - 1, later);
        if (!hidden) pass_line(vcpu, at, store, later);
    };
    part(address);
    if (address % line_bytes + size > line_bytes) {
        vcpu.strip.advance(1);
        part(address + size - 1);
    }
}

void Tracer::stream_store(Vcpu& vcpu, std::uint64_t address, std::uint64_t later) {
    if (ready(vcpu) || prepare(vcpu)) vcpu.at = vcpu.strip.stream_store(address, later, vcpu.at);
}

void Tracer::look(Vcpu& vcpu) {
    if (vcpu.at != vcpu.stamped) stamp(vcpu);
    std::uint64_t next = instructions_per_stamp;
    if (options_.accesses != 0) {
        if (vcpu.instructions() >= vcpu.budget_at) {
            const std::uint64_t left = budget_left();
            if (left == 0) return budget_used_();
            vcpu.budget_at =
                vcpu.instructions() + std::clamp(left / std::max(threads_.load(), 1u),
                                                 std::uint64_t{1}, instructions_per_look);
        }
        next = std::min(next, vcpu.budget_at - vcpu.instructions());
    }
    vcpu.look_in(static_cast<std::int64_t>(next));
}

// The instruction count, if there are records since the last one.
void Tracer::stamp(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return;
    make_room(vcpu, 1);
    vcpu.push(make_record(RecordKind::instructions, vcpu.instructions()));
    vcpu.stamped = vcpu.at;
}

// Accesses that are left of the program's budget. The sooner it is looked at the less is left: few
// instructions make more than one.
std::uint64_t Tracer::budget_left() {
    const std::lock_guard lock(mutex_);
    std::uint64_t seen = ended_accesses_;
    for (unsigned i = 0; i < used_; ++i) {
        if (table_.vcpus[i].thread != nullptr) seen += table_.vcpus[i].strip.accesses();
    }
    return options_.accesses - std::min(seen, options_.accesses);
}

void Tracer::doorbell(Vcpu& vcpu, const pagelens_record& record) {
    if (vcpu.block == nullptr) return;
    make_room(vcpu, event_words);
    std::vector<std::uint64_t>& phases = vcpu.thread->phases;
    switch (record.kind) {
        case PAGELENS_BIRTH:
            vcpu.push(Event{EventKind::birth, record.address, record.size,
                            vcpu.thread->site_cache.number(vcpu.thread->stack)});
            break;
        case PAGELENS_DEATH:
            vcpu.push(Event{EventKind::death, record.address});
            break;
        case PAGELENS_REGION_BEGIN:
            phases.push_back(phase_id(region_name(guest_base_, record)));
            vcpu.push(Event{EventKind::phase, 0, vcpu.instructions(), phases.back()});
            break;
        case PAGELENS_REGION_END: {
            const auto open = std::find(phases.rbegin(), phases.rend(),
                                        phase_id(region_name(guest_base_, record)));
            if (open != phases.rend()) phases.erase(std::next(open).base(), phases.end());
            vcpu.push(Event{EventKind::phase, 0, vcpu.instructions(),
                            phases.empty() ? 0 : phases.back()});
            break;
        }
        default:
            break;
    }
}

std::uint64_t Tracer::phase_id(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [phase, is_new] = phases_.try_emplace(name, phases_.size() + 1);
    if (is_new) session_->writer().define(PhaseDefinition{phase->second, name});
    return phase->second;
}

void Tracer::know_stack(Vcpu& vcpu, std::uint64_t address) {
    vcpu.thread->stack_known = true;
    const auto [start, end] = mapping_at(guest_base_ + address);
    if (vcpu.block == nullptr || start == end) return;
    session_->writer().define(
        RegionDefinition{RegionKind::stack, start - guest_base_, end - start});
}

// Defined anew whenever it has outgrown what was stated, which doubles each time.
void Tracer::know_heap(std::uint64_t program_break) {
    if (heap_start_ == 0) heap_start_ = program_break;
    if (program_break <= heap_start_ + heap_known_) return;
    heap_known_ = std::max(std::bit_ceil(program_break - heap_start_), std::uint64_t{1} << 20);
    session_->writer().define(RegionDefinition{RegionKind::heap, heap_start_, heap_known_});
}

void Tracer::sync(Vcpu& vcpu) {
    if (vcpu.block == nullptr) return;
    make_room(vcpu, event_words);
    vcpu.push(Event{EventKind::sync, 0, vcpu.instructions(), session_->next_sync()});
    submit(vcpu);  // what happened before a meeting is filtered before what comes after
}

void Tracer::system_call(Vcpu& vcpu, const SystemCall& call) {
    if (vcpu.thread == nullptr) return;
    vcpu.thread->call = call;
    switch (call.number) {
        case nr::futex:
            if (met_ && wakes(call.argument[1])) sync(vcpu);
            break;
        case nr::clone:
        case nr::clone3:
            sync(vcpu);
            break;
        default:
            break;
    }
}

void Tracer::system_call_returned(Vcpu& vcpu, std::int64_t result) {
    if (vcpu.block == nullptr) return;
    const SystemCall& call = vcpu.thread->call;
    if (call.number == nr::futex && met_ && !wakes(call.argument[1])) sync(vcpu);
    const std::unique_lock lock(mutex_, std::defer_lock);
    page_events(call, result, program_break_, guest_base_, [&](const Event& event) {
        const bool gone = event.kind != EventKind::page_write;
        if (gone) {
            given_back(vcpu, event);
        } else {
            make_room(vcpu, event_words);
            vcpu.push(event);
        }
    });
    if (call.number == nr::brk) know_heap(program_break_);
    if (call.number == nr::mmap || call.number == nr::munmap || call.number == nr::mremap) {
        const std::uint64_t begin =
            call.number == nr::munmap ? call.argument[0] : static_cast<std::uint64_t>(result);
        modules_->changed(begin, begin + call.argument[1]);
    }
}

void Tracer::given_back(Vcpu& vcpu, const Event& event) {
    const Range ranges[] = {{event.address, event.count}, {event.extra, event.count}};
    const unsigned count = event.kind == EventKind::remap ? 2 : 1;
    for (unsigned i = 0; i < count; ++i) {
        make_room(vcpu, Strip::records_per_forget + event_words);
        vcpu.at = vcpu.strip.forget(ranges[i].page, ranges[i].count, vcpu.at);
        if (threads_ > 1) {
            const std::lock_guard lock(mutex_);
            if (vcpu.forgotten == given_back_.size()) ++vcpu.forgotten;  // this one is done here
            given_back_.push_back(ranges[i]);
            for (unsigned other = 0; other < used_; ++other) {
                if (&table_.vcpus[other] != &vcpu)
                    table_.vcpus[other].strip.revoke(ranges[i].page, ranges[i].count);
            }
            given_back_size_.store(given_back_.size(), std::memory_order_release);
        }
    }
    vcpu.push(event);
}

// Other threads gave these pages back since this one last looked.
void Tracer::forget_pages(Vcpu& vcpu) {
    const std::lock_guard lock(mutex_);
    for (; vcpu.forgotten < given_back_.size(); ++vcpu.forgotten) {
        const Range range = given_back_[vcpu.forgotten];
        make_room(vcpu, Strip::records_per_forget + 2);
        vcpu.at = vcpu.strip.forget(range.page, range.count, vcpu.at);
        vcpu.push(make_record(RecordKind::forget, range.page));
        vcpu.push(range.count);
    }
}

void Tracer::stop_recording() {
    for (unsigned i = 0; i < used_; ++i) {
        Vcpu& vcpu = table_.vcpus[i];
        if (vcpu.block == nullptr) continue;
        make_room(vcpu, 1);
        vcpu.push(make_record(RecordKind::instructions, vcpu.instructions()));
        session_->put(vcpu.take_block());
    }
}

void Tracer::finish(std::int32_t exit_status) {
    if (finished_) return;
    finished_ = true;
    stop_recording();
    TraceSummary summary;
    summary.instructions = ended_instructions_;
    summary.accesses = ended_accesses_;
    for (unsigned i = 0; i < used_; ++i) {
        if (table_.vcpus[i].thread == nullptr) continue;
        summary.instructions += table_.vcpus[i].instructions();
        summary.accesses += table_.vcpus[i].strip.accesses();
    }
    summary.total_instructions = summary.instructions + untraced_instructions;
    summary.exit_status = exit_status;
    const int error = session_->finish(summary);
    report(options_.status, "finished " + std::to_string(error) + " " +
                                std::to_string(summary.accesses) + " " +
                                std::to_string(summary.instructions) + " " +
                                std::to_string(*summary.total_instructions));
}

void Tracer::forked() {
    in_child_ = true;
    finished_ = true;
    session_->abandon();
    for (unsigned i = 0; i < used_; ++i) {
        if (table_.vcpus[i].block != nullptr) table_.vcpus[i].take_block();
    }
}

void Tracer::begin_in_child(unsigned index) {
    // What the parent's threads had stays behind: their memory is a copy, and they are not here.
    options_.program = 1;  // of a new process
    session_.release();
    sites_.release();
    modules_.release();
    for (unsigned i = 0; i < used_; ++i) std::construct_at(&table_.vcpus[i]);
    ended_accesses_ = ended_instructions_ = untraced_instructions = 0;
    threads_ = 0;
    met_ = false;
    phases_.clear();
    heap_known_ = 0;
    finished_ = false;
    open_session();
    begin_thread(index);
}

}  // namespace pagelens
