#include "probes/transfer_queue.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "probes/failure.hpp"

namespace pagelens::probes {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t most_buffer_bytes = std::size_t{256} << 20;  // of all slots together

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

Buffer buffer_of(std::size_t bytes) {
    const std::size_t whole = whole_pages(bytes);
    Buffer buffer(static_cast<char*>(std::aligned_alloc(page_bytes, whole)));
    if (!buffer)
        throw Failure(ENOMEM, "no memory for the buffer of an operation; take smaller ones");
    std::memset(buffer.get(), 'x', whole);
    return buffer;
}

TransferQueue::TransferQueue(std::size_t depth, std::size_t bytes)
    : slot_bytes_(whole_pages(std::max(bytes, std::size_t{1}))),
      buffers_(std::clamp(most_buffer_bytes / slot_bytes_, std::size_t{1},
                          std::max(depth, std::size_t{1}))),
      buffer_(buffer_of(buffers_ * slot_bytes_)),
      slots_(depth),
      ended_(depth) {
    if (depth == 0 || depth > most_in_flight)
        throw std::invalid_argument("depth: 1 to 1024 transfers can be in flight");
    if (::syscall(SYS_io_setup, depth, &context_) != 0)
        throw Failure(errno, "the kernel refuses asynchronous operations (io_setup)");
    for (std::size_t slot = 0; slot < depth; ++slot) free_.push_back(slot);
}

TransferQueue::~TransferQueue() { ::syscall(SYS_io_destroy, context_); }

void TransferQueue::submit(int descriptor, bool write, std::int64_t offset, std::size_t bytes) {
    if (bytes > slot_bytes_) throw std::invalid_argument("bytes: larger than the queue's buffers");
    if (free_.empty()) wait_for(1);
    const std::size_t slot = free_.back();
    iocb& operation = slots_[slot];
    operation = {};
    operation.aio_data = slot;
    operation.aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    operation.aio_fildes = static_cast<__u32>(descriptor);
    char* const buffer = buffer_.get() + slot % buffers_ * slot_bytes_;
    operation.aio_buf = reinterpret_cast<__u64>(buffer);
    operation.aio_nbytes = bytes;
    operation.aio_offset = offset;
    iocb* const one = &operation;
    while (::syscall(SYS_io_submit, context_, 1, &one) != 1)
        if (errno != EAGAIN && errno != EINTR) throw Failure(errno, "io_submit failed");
    free_.pop_back();
}

void TransferQueue::wait_for_all() {
    if (free_.size() < slots_.size()) wait_for(slots_.size() - free_.size());
}

void TransferQueue::wait_for(std::size_t count) {
    std::int64_t error = 0;
    while (count > 0) {
        const long ended =
            ::syscall(SYS_io_getevents, context_, count, slots_.size(), ended_.data(), nullptr);
        if (ended < 0 && errno == EINTR) continue;
        if (ended < 0) throw Failure(errno, "io_getevents failed");
        const auto found = static_cast<std::size_t>(ended);
        for (std::size_t at = 0; at < found; ++at) {
            free_.push_back(ended_[at].data);
            if (ended_[at].res < 0)
                error = -ended_[at].res;
            else
                moved_ += static_cast<std::uint64_t>(ended_[at].res);
        }
        count -= std::min(count, found);
    }
    if (error != 0) throw Failure(static_cast<int>(error), "a transfer in flight failed");
}

}  // namespace pagelens::probes
