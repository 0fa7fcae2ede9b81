// Functions of libc that stand before system calls which give pages to the program, take them, or
// write to them. This library is searched before libc, so the program calls these functions.
//
// libc's own calls do not come here. Those of its allocator that give pages back are found by the
// block that is freed, and by the end of the heap.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tracer/compiled/system_calls.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "hooks/mremap_target.h"
#include "tracer/compiled/own.hpp"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace pagelens {
namespace {

// The function of that name that comes after this library. dlsym() may allocate.
void* next(std::atomic<void*>& known, const char* name) {
    void* found = known.load(std::memory_order_relaxed);
    if (found == nullptr) [[unlikely]]
        known.store(found = ::dlsym(RTLD_NEXT, name), std::memory_order_relaxed);
    return found;
}
#define NEXT(name)                                                      \
    ([] {                                                               \
        static std::atomic<void*> known{nullptr};                       \
        return reinterpret_cast<decltype(&::name)>(next(known, #name)); \
    }())

template <typename Word>
std::uint64_t word(Word value) {
    return (std::uint64_t)value;  // an address, or a number that keeps its sign
}

// One call: the tracer hears of it before and after it is made.
class Call {
  public:
    Call(std::int64_t number, std::initializer_list<std::uint64_t> arguments) {
        if (!inside_ || (vcpu_ = begun_thread()) == nullptr) return;
        count(*vcpu_);
        call_.number = number;
        std::copy(arguments.begin(), arguments.end(), call_.argument);
        tracer->system_call(*vcpu_, call_);
    }
    template <typename Result>
    Result returned(Result result) {
        if (vcpu_ == nullptr) return result;
        const int saved = errno;
        auto value = (std::int64_t)result;  // an address or a number
        tracer->system_call_returned(*vcpu_, value == -1 ? -saved : value);
        errno = saved;
        return result;
    }

  private:
    const Inside inside_;
    Vcpu* vcpu_ = nullptr;
    SystemCall call_;
};

bool glibc_allocates = false;

// A block of glibc's allocator that is a mapping of its own. The two words before a block are the
// distance to the mapping's begin and the rest of its size, whose bit 1 marks such a block (glibc,
// malloc/malloc.c, IS_MMAPPED). Other allocators give no mappings back.
struct OwnMapping {
    std::uint64_t begin = 0, bytes = 0;

    explicit OwnMapping(const void* block) {
        if (block == nullptr || !glibc_allocates) return;
        const auto* const words = static_cast<const std::uint64_t*>(block);
        const std::uint64_t before = words[-2], size = words[-1];
        if ((size & 2) == 0) return;
        begin = word(block) - 16 - before;
        bytes = before + (size & ~std::uint64_t{7});
    }
};

void* run_thread(void* given) {
    const auto work = *static_cast<std::pair<void* (*)(void*), void*>*>(given);
    delete static_cast<std::pair<void* (*)(void*), void*>*>(given);
    {
        const Inside inside;
        begun_thread();
    }
    return work.first(work.second);
}

}  // namespace

// Not called when a block is freed: dlsym() frees the last error's text, and would come here again.
void find_allocator() {
    Dl_info allocator{}, libc{};
    glibc_allocates = ::dladdr(reinterpret_cast<void*>(NEXT(free)), &allocator) != 0 &&
                      ::dladdr(::dlsym(RTLD_NEXT, "gnu_get_libc_version"), &libc) != 0 &&
                      allocator.dli_fbase == libc.dli_fbase;
}

int real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                        void* argument) {
    return NEXT(pthread_create)(thread, attributes, run, argument);
}

// Tells the tracer of a meeting, by the call with which a thread wakes others. It counts once there
// were two threads.
void meet() { Call(nr::futex, {0, 1}); }

void look_at_heap(Vcpu& vcpu) {
    static std::atomic<void*> known{nullptr};
    void* const end = ::sbrk(0);
    if (known.exchange(end) == end) return;
    tracer->system_call(vcpu, SystemCall{nr::brk, {word(end)}});
    tracer->system_call_returned(vcpu, static_cast<std::int64_t>(word(end)));
}

}  // namespace pagelens

using namespace pagelens;

EXPORT void free(void* block) {
    auto* const real = NEXT(free);
    if (real == nullptr || block == nullptr) return;
    if (own.inside > 0 || pagelens_thread == nullptr) return real(block);
    if (const OwnMapping mapping(block); mapping.bytes > 0) {
        Call call(nr::munmap, {mapping.begin, mapping.bytes});
        real(block);
        call.returned(0);
        return;
    }
    real(block);
    const Inside inside;
    look_at_heap(*own.vcpu);
}

EXPORT void* realloc(void* block, size_t size) {
    auto* const real = NEXT(realloc);
    if (real == nullptr) return nullptr;
    if (own.inside > 0 || pagelens_thread == nullptr) return real(block, size);
    const OwnMapping before(block);
    if (before.bytes == 0) return real(block, size);
    void* const moved = real(block, size);
    if (const OwnMapping after(moved); after.bytes > 0) {
        Call(nr::mremap, {before.begin, before.bytes, after.bytes}).returned(after.begin);
    } else if (moved != nullptr || size == 0) {
        Call(nr::munmap, {before.begin, before.bytes}).returned(0);
    }
    return moved;
}

EXPORT void* mmap(void* hint, size_t bytes, int protection, int flags, int file,
                  off_t offset) noexcept {
    Call call(nr::mmap,
              {word(hint), bytes, word(protection), word(flags), word(file), word(offset)});
    return call.returned(NEXT(mmap)(hint, bytes, protection, flags, file, offset));
}
EXPORT void* mmap64(void* hint, size_t bytes, int protection, int flags, int file,
                    off64_t offset) noexcept {
    Call call(nr::mmap,
              {word(hint), bytes, word(protection), word(flags), word(file), word(offset)});
    return call.returned(NEXT(mmap64)(hint, bytes, protection, flags, file, offset));
}
EXPORT int munmap(void* address, size_t bytes) noexcept {
    Call call(nr::munmap, {word(address), bytes});
    return call.returned(NEXT(munmap)(address, bytes));
}
EXPORT void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
    va_list given;
    va_start(given, flags);
    void* const wanted = mremap_target(flags, given);
    va_end(given);
    Call call(nr::mremap, {word(old), old_bytes, bytes, word(flags), word(wanted)});
    return call.returned(NEXT(mremap)(old, old_bytes, bytes, flags, wanted));
}
EXPORT int madvise(void* address, size_t bytes, int advice) noexcept {
    Call call(nr::madvise, {word(address), bytes, word(advice)});
    return call.returned(NEXT(madvise)(address, bytes, advice));
}

EXPORT ssize_t read(int file, void* to, size_t bytes) {
    const ssize_t got = NEXT(read)(file, to, bytes);
    return Call(nr::read, {word(file), word(to), bytes}).returned(got);
}
EXPORT ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
    const ssize_t got = NEXT(pread)(file, to, bytes, offset);
    return Call(nr::pread64, {word(file), word(to), bytes, word(offset)}).returned(got);
}
EXPORT ssize_t pread64(int file, void* to, size_t bytes, off64_t offset) {
    const ssize_t got = NEXT(pread64)(file, to, bytes, offset);
    return Call(nr::pread64, {word(file), word(to), bytes, word(offset)}).returned(got);
}
EXPORT ssize_t readv(int file, const iovec* parts, int count) {
    const ssize_t got = NEXT(readv)(file, parts, count);
    return Call(nr::readv, {word(file), word(parts), word(count)}).returned(got);
}
EXPORT ssize_t recv(int file, void* to, size_t bytes, int flags) {
    const ssize_t got = NEXT(recv)(file, to, bytes, flags);
    return Call(nr::recvfrom, {word(file), word(to), bytes}).returned(got);
}
EXPORT ssize_t recvmsg(int file, msghdr* message, int flags) {
    const ssize_t got = NEXT(recvmsg)(file, message, flags);
    return Call(nr::recvmsg, {word(file), word(message), word(flags)}).returned(got);
}

// Threads meet where one waits for another, or lets it go on.
EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) noexcept {
    if (own.inside > 0 || tracer == nullptr)
        return real_pthread_create(thread, attributes, run, argument);
    Call(nr::clone, {});
    auto* const given = new std::pair<void* (*)(void*), void*>(run, argument);
    const int error = real_pthread_create(thread, attributes, run_thread, given);
    if (error != 0) delete given;
    return error;
}
// From here on threads inside the tracer say that they cannot be cancelled. Those that are inside
// have not said so.
EXPORT int pthread_cancel(pthread_t thread) {
    if (tracer != nullptr && stage != Stage::off && !cancels.exchange(true)) {
        const Inside inside;
        close_gate();
        open_gate();
    }
    return NEXT(pthread_cancel)(thread);
}
