#include "tracer/session.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <span>
#include <utility>

namespace pagelens {

Session::Session(std::string path, const TraceHeader& header)
    : path_(std::move(path)), writer_(path_ + ".partial", header) {
    // The program's signals are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::make_unique<std::thread>([this] { write_blocks(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
    queue_.put(block);
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
    while (Block* block = queue_.next()) {
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
}

int Session::finish(TraceSummary& summary) {
    queue_.close();
    thread_->join();
    summary = writer_.finish(summary);
    const std::string partial = path_ + ".partial";
    const bool kept = writer_.readable() && std::rename(partial.c_str(), path_.c_str()) == 0;
    const int error = writer_.error() != 0 ? writer_.error() : kept ? 0 : errno;
    if (!kept) std::remove(partial.c_str());
    return error;
}

void Session::abandon() {
    static_cast<void>(
        thread_.release());  // it is not in this process: nothing to wait for or to delete
    writer_.abandon();
}

}  // namespace pagelens
