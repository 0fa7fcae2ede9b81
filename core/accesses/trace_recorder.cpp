#include "core/accesses/trace_recorder.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/accesses/meeting.hpp"
#include "core/accesses/trace_reader.hpp"

namespace pagelens {

namespace {

constexpr std::uint64_t instructions_per_stamp = 4096;  // as the tracer's

std::string hexadecimal(std::uint64_t value) {
    std::array<char, 19> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
    return text.data();
}

void check_block(std::uint64_t address, std::uint64_t bytes, std::uint64_t limit,
                 const char* what) {
    if (address < limit && bytes <= limit - address) return;
    throw std::invalid_argument(std::string(what) + " " + hexadecimal(address) + " of " +
                                std::to_string(bytes) + " bytes: memory of a program ends at " +
                                hexadecimal(limit));
}

void check_length(std::string_view name) {
    constexpr std::size_t most = 1 << 12;
    if (name.size() <= most) return;
    throw std::invalid_argument("name: it has " + std::to_string(name.size()) +
                                " bytes; give at most " + std::to_string(most));
}

// A value for each access, or the one that holds for all.
template <class T>
class Column {
  public:
    Column(std::span<const T> values, std::size_t accesses, const char* name)
        : values_(values), step_(values.size() == 1 ? 0 : 1) {
        if (values.size() == 1 || values.size() == accesses) return;
        throw std::invalid_argument(std::string(name) + ": " + std::to_string(values.size()) +
                                    " values for " + std::to_string(accesses) +
                                    " accesses; give one for each, or one for all");
    }
    T operator[](std::size_t i) const { return values_[i * step_]; }

  private:
    std::span<const T> values_;
    std::size_t step_;
};

std::string cannot_write(const std::string& path, int error) {
    return "cannot write " + path + " (" + std::strerror(error) +
           "); free some space or name another";
}

TraceHeader header_of(const TraceRecorder::Options& options) {
    TraceHeader header;
    header.exact_for.assign(filter_exact_for.begin(), filter_exact_for.end());
    header.page_filter = filter_page_shape(options.any_tlb ? 1 : page_sets);
    header.producer = options.producer;
    header.program = options.program;
    header.arguments = options.arguments;
    return header;
}

}  // namespace

struct TraceRecorder::Thread {
    // Encodes events. A page without an event of its first use was there before the trace began
    // (trace_walk.hpp).
    struct Sink {
        ThreadEncoder& encoder;
        bool pages_exist;

        void put(const Event& event) {
            const bool first_use =
                event.kind == EventKind::page_read || event.kind == EventKind::page_write;
            if (!(first_use && pages_exist)) encoder.put(event);
        }
        void stamp(std::uint64_t instructions) { encoder.stamp(instructions); }
        void stamp_now(std::uint64_t instructions) { encoder.stamp_now(instructions); }
    };

    Thread(ThreadEncoder& encoder, bool any_tlb, bool pages_exist)
        : sink{encoder, pages_exist}, strip(any_tlb ? 1 : page_sets), filter(sink) {}

    void access(std::uint64_t address, std::uint32_t size, bool store) {
        strip.advance(1);
        if (size <= line_bytes && strip.hides(address, store, line_bytes - size, 0)) return;
        const std::uint64_t last = (address + size - 1) / line_bytes * line_bytes;
        for (std::uint64_t line = address / line_bytes * line_bytes;; line += line_bytes) {
            if (!strip.hides(line, store, line_bytes - 1, 0)) {
                make_room(Strip::records_per_pass);
                at = strip.pass(line, store, 0, at);
            }
            if (line == last) return;
            strip.advance(1);
        }
    }

    void execute(std::uint64_t count) {
        instructions += count;
        if (instructions - stamped < instructions_per_stamp) return;
        make_room(1);
        *at++ = make_record(RecordKind::instructions, instructions);
        stamped = instructions;
    }

    void put(const Event& event) {
        make_room(event_words);
        *at++ = make_record(RecordKind::event, static_cast<std::uint64_t>(event.kind));
        *at++ = event.address;
        *at++ = event.count;
        *at++ = event.extra;
    }

    // Pages lost their frames; `told`: an event that says so follows.
    void forget(std::uint64_t page, std::uint64_t pages, bool told) {
        make_room(Strip::records_per_forget + 2);
        at = strip.forget(page, pages, at);
        if (told) return;
        *at++ = make_record(RecordKind::forget, page);
        *at++ = pages;
    }

    void make_room(std::size_t wanted) {
        if (static_cast<std::size_t>(records.data() + records.size() - at) < wanted) drain();
    }

    void drain() {
        filter.take(std::span(records.data(), at));
        at = records.data();
    }

    Sink sink;
    Strip strip;
    Filter<Sink> filter;
    std::array<Record, 4096> records;
    Record* at = records.data();
    std::uint64_t instructions = 0;
    std::uint64_t stamped = 0;
    std::uint64_t accesses = 0;  // but those of waiting
    bool waits = false;
};

TraceRecorder::TraceRecorder(std::string path, const Options& options)
    : path_(std::move(path)), any_tlb_(options.any_tlb), pages_exist_(options.pages_exist) {
    try {
        writer_.emplace(path_ + ".partial", header_of(options));
    } catch (const std::system_error& error) {
        throw TraceError(cannot_write(path_, error.code().value()));
    }
    check_written();
}

TraceRecorder::~TraceRecorder() { discard(); }

void TraceRecorder::access(std::uint32_t id, const AccessBatch& batch) {
    const std::size_t count = batch.addresses.size();
    if (count == 0) return;
    const Column sizes(batch.sizes, count, "sizes");
    const Column stores(batch.stores, count, "stores");
    const Column instructions(batch.instructions, count, "instructions");
    for (std::size_t i = 0; i < count; ++i) {
        if (sizes[i] == 0) {
            throw std::invalid_argument("sizes: access " + std::to_string(i) +
                                        " has none; the least is 1 byte");
        }
        check_block(batch.addresses[i], sizes[i], address_limit, "addresses: access at");
    }

    const auto locked = lock();
    Thread& thread = this->thread(id);
    for (std::size_t i = 0; i < count; ++i) {
        thread.execute(instructions[i]);
        thread.access(batch.addresses[i], sizes[i], stores[i]);
    }
    if (!thread.waits) thread.accesses += count;
    check_written();
}

void TraceRecorder::execute(std::uint32_t id, std::uint64_t instructions) {
    const auto locked = lock();
    thread(id).execute(instructions);
}

void TraceRecorder::allocate(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                             std::string_view name) {
    check_block(address, bytes, address_limit, "allocate: block at");
    if (name.empty()) throw std::invalid_argument("name: it is empty; give the block one");
    check_length(name);
    const auto locked = lock();
    Thread& thread = this->thread(id);
    const auto [site, is_new] = sites_.try_emplace(std::string(name), sites_.size() + 1);
    if (is_new) writer_->define(CallSiteDefinition{site->second, {}, site->first});
    thread.put(Event{EventKind::birth, address, bytes, site->second});
}

void TraceRecorder::free(std::uint32_t id, std::uint64_t address) {
    check_block(address, 0, address_limit, "free: block at");
    const auto locked = lock();
    thread(id).put(Event{EventKind::death, address});
}

void TraceRecorder::unmap(std::uint32_t id, std::uint64_t address, std::uint64_t bytes) {
    check_block(address, bytes, address_limit, "unmap: memory at");
    const std::uint64_t first = (address + page_bytes - 1) / page_bytes;
    const std::uint64_t end = (address + bytes) / page_bytes;
    const auto locked = lock();
    Thread& thread = this->thread(id);
    if (first >= end) return;
    for (const auto& [number, other] : threads_)
        other->forget(first, end - first, other.get() == &thread);
    thread.put(Event{EventKind::unmap, first, end - first});
}

void TraceRecorder::map_file(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                             std::string_view name, std::uint64_t offset) {
    check_block(address, bytes, address_limit, "map_file: memory at");
    check_length(name);
    if (offset % page_bytes != 0 || offset >= address_limit)
        throw std::invalid_argument("offset: " + std::to_string(offset) +
                                    " is not a multiple of 4096 below 2^57");
    const std::uint64_t first = address / page_bytes;
    const std::uint64_t end = (address + bytes + page_bytes - 1) / page_bytes;
    const auto locked = lock();
    Thread& thread = this->thread(id);
    const std::uint64_t file =
        files_.try_emplace(std::string(name), files_.size() + 1).first->second;
    constexpr std::uint64_t most_pages = address_limit / page_bytes;
    thread.put(
        Event{EventKind::map_file, first, end - first, file * most_pages + offset / page_bytes});
}

void TraceRecorder::phase(std::uint32_t id, std::string_view name) {
    check_length(name);
    const auto locked = lock();
    Thread& thread = this->thread(id);
    std::uint64_t number = 0;
    if (!name.empty()) {
        const auto [phase, is_new] = phases_.try_emplace(std::string(name), phases_.size() + 1);
        if (is_new) writer_->define(PhaseDefinition{phase->second, phase->first});
        number = phase->second;
    }
    thread.put(Event{EventKind::phase, 0, thread.instructions, number});
}

void TraceRecorder::sync(std::uint32_t id) {
    const auto locked = lock();
    Thread& thread = this->thread(id);
    thread.put(Event{EventKind::sync, 0, thread.instructions, ++syncs_});
}

void TraceRecorder::wait(std::uint32_t id, std::uint32_t processes, std::uint32_t before) {
    const auto locked = lock();
    Thread& thread = this->thread(id);
    const auto no_meeting = static_cast<std::uint64_t>(WaitKind::no_meeting);
    thread.put(Event{EventKind::wait, 0, thread.instructions,
                     processes > 1 ? packed_of_all(processes, before) : no_meeting});
    thread.waits = true;
}

void TraceRecorder::go_on(std::uint32_t id) {
    const auto locked = lock();
    Thread& thread = this->thread(id);
    thread.put(Event{EventKind::wait, 0, thread.instructions,
                     static_cast<std::uint64_t>(WaitKind::ended)});
    thread.waits = false;
}

void TraceRecorder::meet(std::uint32_t id, std::string_view name, std::uint32_t turn, bool comes,
                         bool waits, bool sends) {
    check_length(name);
    if (turn >= turns_limit)
        throw std::invalid_argument("turn: " + std::to_string(turn) + " is not below " +
                                    std::to_string(turns_limit));
    const auto locked = lock();
    Thread& thread = this->thread(id);
    if (!thread.waits) throw std::invalid_argument("meet: the thread does not wait; call wait");
    const auto [place, is_new] = places_.try_emplace(std::string(name), places_.size() + 1);
    if (is_new) writer_->define(PlaceDefinition{place->second, place->first});
    const Meeting meeting{comes, waits, static_cast<std::uint32_t>(place->second), turn, sends};
    thread.put(Event{EventKind::wait, 0, thread.instructions, packed(meeting)});
}

void TraceRecorder::warn(std::string_view text) {
    const auto locked = lock();
    writer_->warn(text);
}

void TraceRecorder::close() {
    const std::lock_guard locked(mutex_);
    if (!writer_) return;
    TraceSummary summary;
    for (const auto& [id, thread] : threads_) {
        thread->drain();
        writer_->thread(id).stamp(thread->instructions);
        summary.instructions += thread->instructions;
        summary.accesses += thread->accesses;
    }
    writer_->finish(summary);
    int error = writer_->error();
    const std::string partial = path_ + ".partial";
    if (error == 0 && std::rename(partial.c_str(), path_.c_str()) != 0) error = errno;
    writer_.reset();
    threads_.clear();
    if (error == 0) return;
    std::remove(partial.c_str());
    throw TraceError(cannot_write(path_, error));
}

void TraceRecorder::discard() {
    const std::lock_guard locked(mutex_);
    if (!writer_) return;
    writer_.reset();
    threads_.clear();
    std::remove((path_ + ".partial").c_str());
}

std::unique_lock<std::mutex> TraceRecorder::lock() {
    std::unique_lock locked(mutex_);
    if (!writer_) throw std::invalid_argument(path_ + ": the trace is closed; record before");
    return locked;
}

TraceRecorder::Thread& TraceRecorder::thread(std::uint32_t id) {
    const auto found = threads_.find(id);
    if (found != threads_.end()) return *found->second;
    if (id >= threads_limit) {
        throw std::invalid_argument("thread: " + std::to_string(id) +
                                    " is not one of a trace's; give 0 to " +
                                    std::to_string(threads_limit - 1));
    }
    auto made = std::make_unique<Thread>(writer_->thread(id), any_tlb_, pages_exist_);
    return *threads_.emplace(id, std::move(made)).first->second;
}

void TraceRecorder::check_written() const {
    if (const int error = writer_->error(); error != 0) {
        throw TraceError(cannot_write(path_, error));
    }
}

}  // namespace pagelens
