// The events that the tracer records beside accesses: objects, regions, the address space, meetings
// of threads, and pages that lose their frames.
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "core/accesses/meeting.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/inherited.hpp"
#include "tracer/system_calls.hpp"
#include "tracer/tracer.hpp"

namespace pagelens {

namespace {

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
            phases.push_back(phase_id(region_name(space_.guest_base, record)));
            vcpu.push(Event{EventKind::phase, 0, vcpu.instructions(), phases.back()});
            enter_phase(vcpu);
            break;
        case PAGELENS_REGION_END: {
            const auto open = std::find(phases.rbegin(), phases.rend(),
                                        phase_id(region_name(space_.guest_base, record)));
            if (open != phases.rend()) phases.erase(std::next(open).base(), phases.end());
            vcpu.push(Event{EventKind::phase, 0, vcpu.instructions(),
                            phases.empty() ? 0 : phases.back()});
            enter_phase(vcpu);
            break;
        }
        case PAGELENS_WAIT_BEGIN:
            begin_wait(vcpu,
                       record.address > 1
                           ? packed_of_all(static_cast<std::uint32_t>(record.address), record.size)
                           : 0);
            break;
        case PAGELENS_MEETING: {
            const ToldMeeting told = told_meeting(space_.guest_base, record);
            if (!told.place.empty())
                begin_wait(vcpu, packed({told.comes, told.waits, place_id(told.place), told.turn,
                                         told.sends}));
            break;
        }
        case PAGELENS_WAIT_END:
            end_wait(vcpu);
            break;
        default:
            break;
    }
}

void Tracer::begin_wait(Vcpu& vcpu, std::uint64_t meeting) {
    const auto no_meeting = static_cast<std::uint64_t>(WaitKind::no_meeting);
    vcpu.push(Event{EventKind::wait, 0, vcpu.instructions(), std::max(meeting, no_meeting)});
    if (vcpu.thread->waits_since) return;
    vcpu.thread->waits_since = vcpu.accesses();
    end_sample(vcpu);
    vcpu.thread->sampler.pause(vcpu.instructions());
}

void Tracer::end_wait(Vcpu& vcpu) {
    if (!vcpu.thread->waits_since) return;
    vcpu.push(Event{EventKind::wait, 0, vcpu.instructions(),
                    static_cast<std::uint64_t>(WaitKind::ended)});
    waiting_accesses_ += vcpu.accesses() - *vcpu.thread->waits_since;
    vcpu.thread->waits_since.reset();
    vcpu.thread->sampler.go_on(vcpu.instructions());
}

std::uint64_t Tracer::phase_id(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [phase, is_new] = phases_.try_emplace(name, phases_.size() + 1);
    if (is_new) session_->writer().define(PhaseDefinition{phase->second, name});
    return phase->second;
}

std::uint32_t Tracer::place_id(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] =
        places_.try_emplace(name, static_cast<std::uint32_t>(places_.size() + 1));
    if (is_new) session_->writer().define(PlaceDefinition{place->second, name});
    return place->second;
}

void Tracer::know_stack(Vcpu& vcpu, std::uint64_t address) {
    vcpu.thread->stack_known = true;
    const auto [start, end] = mapping_at(space_.guest_base + address);
    if (vcpu.block == nullptr || start == end) return;
    session_->writer().define(
        RegionDefinition{RegionKind::stack, start - space_.guest_base, end - start});
}

// Defined anew whenever it has outgrown what was stated, which doubles each time.
void Tracer::know_heap(std::uint64_t program_break) {
    if (heap_start_ == 0) heap_start_ = program_break;
    if (program_break <= heap_start_ + heap_known_) return;
    heap_known_ = std::max(std::bit_ceil(program_break - heap_start_), std::uint64_t{1} << 20);
    session_->writer().define(RegionDefinition{RegionKind::heap, heap_start_, heap_known_});
}

void Tracer::know_files(Vcpu& vcpu) {
    std::vector<FileMapping> mappings = read_mappings("/proc/self/maps");
    std::erase_if(mappings, [this](const FileMapping& m) { return engine_.owns(m.begin); });
    present_files(space_, mappings, [&](const Event& event) {
        define_files();
        make_room(vcpu, event_words);
        vcpu.push(event);
    });
}

void Tracer::know_inherited(Vcpu& vcpu) {
    const std::uint64_t memory = space_.page_cache.of_memory(memory_id_);
    const std::uint64_t first = space_.guest_base / page_bytes;
    define_files();
    for (const PageRun& run : pages_in_memory("/proc/self")) {
        if (run.first < first || engine_.owns(run.first * page_bytes)) continue;
        const std::uint64_t page = run.first - first;
        make_room(vcpu, event_words);
        vcpu.push(Event{EventKind::map_file, page, run.count, memory | page});
    }
    memory_id_ = new_memory_id();  // of what this process shows to its own children
}

void Tracer::know_advice(Vcpu& vcpu) {
    space_.advice.for_each([&](std::uint64_t begin, std::uint64_t end) {
        make_room(vcpu, event_words);
        vcpu.push(Event{EventKind::advise, begin, end - begin, 1});
    });
}

void Tracer::define_files() {
    for (const FileDefinition& file : space_.page_cache.take_new()) session_->writer().define(file);
}

void Tracer::sync(Vcpu& vcpu) {
    if (vcpu.block != nullptr) sync(vcpu, session_->next_sync());
}

void Tracer::sync(Vcpu& vcpu, std::uint64_t number) {
    make_room(vcpu, event_words);
    vcpu.push(Event{EventKind::sync, 0, vcpu.instructions(), number});
    submit(vcpu);  // what happened before a meeting is filtered before what comes after
}

void Tracer::system_call(Vcpu& vcpu, const SystemCall& call) {
    if (vcpu.thread == nullptr) return;
    vcpu.thread->call = call;
    switch (call.number) {
        case nr::futex:
            if (!wakes(call.argument[1]))
                __atomic_store_n(&vcpu.waits, true, __ATOMIC_RELAXED);
            else if (met_)
                sync(vcpu);
            break;
        case nr::fork:
        case nr::vfork:
            report_work();
            break;
        case nr::clone:
            if ((call.argument[0] & CLONE_THREAD) == 0) report_work();
            [[fallthrough]];
        case nr::clone3:
            sync(vcpu);
            break;
        case nr::munmap:
        case nr::brk:
            unmap(vcpu, call);
            break;
        case nr::mremap:  // its meeting is told afterwards, but is before those of the pages' new
                          // owners
            if (threads_ > 1) vcpu.thread->moves_at = session_->next_sync();
            break;
        default:
            break;
    }
}

void Tracer::unmap(Vcpu& vcpu, const SystemCall& call) {
    if (vcpu.block == nullptr) return;
    const std::optional<Event> event = unmapped_by(call, space_);
    if (!event) return;
    given_back(vcpu, *event);
    if (threads_ > 1) sync(vcpu);  // before others get these pages
}

void Tracer::system_call_returned(Vcpu& vcpu, std::int64_t result) {
    __atomic_store_n(&vcpu.waits, false, __ATOMIC_RELAXED);
    if (vcpu.thread == nullptr) return;
    const SystemCall& call = vcpu.thread->call;
    const bool child_ended =
        (call.number == nr::wait4 && result > 0) || (call.number == nr::waitid && result == 0);
    if (child_ended) report_work();
    if (vcpu.block == nullptr) return;
    if (call.number == nr::futex && met_ && !wakes(call.argument[1])) sync(vcpu);
    const std::unique_lock lock(mutex_, std::defer_lock);
    page_events(call, result, space_, [&](const Event& event) {
        if (event.kind == EventKind::unmap || event.kind == EventKind::discard ||
            event.kind == EventKind::remap)
            return given_back(vcpu, event);
        if (event.kind == EventKind::map_file) define_files();
        make_room(vcpu, event_words);
        vcpu.push(event);
    });
    if (call.number == nr::mmap && threads_ > 1) sync(vcpu);  // after others gave these pages back
    if (vcpu.thread->moves_at != 0) sync(vcpu, std::exchange(vcpu.thread->moves_at, 0));
    if (call.number == nr::brk) know_heap(space_.program_break);
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
        written_pages_->forget(ranges[i].page, ranges[i].count);
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

}  // namespace pagelens
