// Several transfers of one thread in flight, by the kernel's asynchronous I/O (io_submit). Only
// direct transfers are in flight in fact. The kernel makes buffered ones before io_submit returns.
#pragma once

#include <linux/aio_abi.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace pagelens::probes {

inline constexpr std::size_t most_in_flight = 1024;

struct FreeBuffer {
    void operator()(char* block) const { std::free(block); }
};
using Buffer = std::unique_ptr<char, FreeBuffer>;

// Returns a buffer whose address is a multiple of 4096. All its pages are there, and hold
// something: zeros might lie in one page that is shared. Throws Failure if there is no memory.
Buffer buffer_of(std::size_t bytes);

class TransferQueue {
  public:
    // `depth` transfers of at most `bytes` can be in flight. Throws Failure if the system refuses.
    TransferQueue(std::size_t depth, std::size_t bytes);
    // Waits for all of them.
    ~TransferQueue();
    TransferQueue(const TransferQueue&) = delete;
    TransferQueue& operator=(const TransferQueue&) = delete;

    // Hands a transfer over. If `depth` others are in flight, it waits for one of them first.
    // Throws Failure if this transfer, or one that was waited for, failed.
    void submit(int descriptor, bool write, std::int64_t offset, std::size_t bytes);
    // Waits for all that are in flight. Throws Failure if one of them failed.
    void wait_for_all();
    // Returns the bytes that were moved.
    [[nodiscard]] std::uint64_t moved() const { return moved_; }

  private:
    void wait_for(std::size_t count);

    std::size_t slot_bytes_;
    std::size_t buffers_;  // slots take turns in them
    Buffer buffer_;
    std::vector<iocb> slots_;
    std::vector<std::size_t> free_;
    std::vector<io_event> ended_;
    aio_context_t context_ = 0;
    std::uint64_t moved_ = 0;
};

}  // namespace pagelens::probes
