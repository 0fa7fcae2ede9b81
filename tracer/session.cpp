#include "tracer/session.hpp"

#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

namespace pagelens {

Session::Session(std::string path, const TraceHeader& header, const Engine& engine)
    : path_(std::move(path)), writer_(path_ + ".partial", header) {
    if (engine.start_thread != nullptr && !start_writer(engine.start_thread))
        throw std::system_error(EAGAIN, std::generic_category(), "the writer's thread");
}

bool Session::start_writer(bool (*start_thread)(void (*work)(void*), void* argument)) {
    const auto work = [](void* session) { static_cast<Session*>(session)->write_blocks(); };
    const std::lock_guard lock(write_mutex_);
    has_writer_ = start_thread(work, this);
    return has_writer_;
}

void Session::put(Block* block) {
    if (!has_writer_) {
        const std::lock_guard lock(write_mutex_);
        if (!has_writer_) return write(block);
    }
    queue_.put(block);
}

// The engine stops the other threads before it forks. One that waited for the writer would never
// come to where it can be stopped.
void Session::hold_writer() {
    write_mutex_.lock();
    queue_.grow(true);
}
void Session::let_writer_go() {
    queue_.grow(false);
    write_mutex_.unlock();
}

std::uint32_t Session::begin_thread() {
    queue_.reserve_one_more();
    const std::lock_guard lock(mutex_);
    if (ended_.empty()) return threads_++;
    return ended_.extract(ended_.begin()).value();
}

void Session::end_thread(Block* block) {
    const std::uint32_t number = block->thread;
    block->last = true;
    put(block);
    queue_.reserve_one_less();
    const std::lock_guard lock(mutex_);
    ended_.insert(number);  // its blocks are before those of who gets it next
}

Block* Session::take(std::uint32_t thread) {
    Block* block = queue_.take();
    block->thread = thread;
    return block;
}

void Session::write_blocks() {
    while (queue_.wait()) {
        const std::lock_guard lock(write_mutex_);
        write(queue_.next());
    }
    const std::lock_guard lock(mutex_);
    written_ = true;
    written_changed_.notify_all();
}

void Session::write(Block* block) {
    auto filter = filters_.find(block->thread);
    if (filter == filters_.end()) {
        filter = filters_.try_emplace(block->thread, writer_.thread(block->thread)).first;
    }
    filter->second.take(std::span(block->records).first(block->size));
    if (block->last) {
        filters_.erase(filter);
        writer_.end_thread(block->thread);
    }
    queue_.give_back(block);
}

int Session::finish(TraceSummary& summary, TraceEnd end) {
    queue_.close();
    if (has_writer_) {
        std::unique_lock lock(mutex_);
        written_changed_.wait(lock, [this] { return written_; });
    }
    summary = writer_.finish(summary, end);
    const std::string partial = path_ + ".partial";
    const bool kept = writer_.readable() && std::rename(partial.c_str(), path_.c_str()) == 0;
    const int error = writer_.error() != 0 ? writer_.error() : kept ? 0 : errno;
    if (!kept) std::remove(partial.c_str());
    return error;
}

// The writer's thread is not in this process: there is nothing to wait for.
void Session::abandon() { writer_.abandon(); }

}  // namespace pagelens
