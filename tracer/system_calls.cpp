#include "tracer/system_calls.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include "core/address/units.hpp"

namespace pagelens {

namespace {

// The pages of [address, address + bytes): all that it touches, as mmap and its kin count.
Event pages(EventKind kind, std::uint64_t address, std::uint64_t bytes, std::uint64_t extra = 0) {
    const std::uint64_t first = address / page_bytes;
    const std::uint64_t last = (address + bytes + page_bytes - 1) / page_bytes;
    return Event{kind, first, last - first, extra};
}

std::uint64_t end_page(std::uint64_t address) { return (address + page_bytes - 1) / page_bytes; }

bool is_shared(std::uint64_t flags) {
    const std::uint64_t type = flags & MAP_TYPE;
    return type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
}

// The kernel wrote the first `bytes` of these buffers.
void vectors(const iovec* buffers, std::uint64_t count, std::uint64_t bytes,
             const std::function<void(const Event&)>& emit) {
    for (std::uint64_t i = 0; i < count && bytes > 0; ++i) {
        const std::uint64_t part = std::min<std::uint64_t>(bytes, buffers[i].iov_len);
        if (part == 0) continue;
        emit(pages(EventKind::page_write, reinterpret_cast<std::uint64_t>(buffers[i].iov_base),
                   part));
        bytes -= part;
    }
}

// Anonymous memory that processes share is a file without a name, which the mapping's line tells.
void present_shared(AddressSpace& space, std::uint64_t begin,
                    const std::function<void(const Event&)>& emit) {
    std::vector<FileMapping> mappings = read_mappings("/proc/self/maps");
    std::erase_if(mappings, [begin](const FileMapping& mapping) {
        return begin < mapping.begin || begin >= mapping.end || !mapping.shared;
    });
    present_files(space, mappings, emit);
}

}  // namespace

void present_files(AddressSpace& space, const std::vector<FileMapping>& mappings,
                   const std::function<void(const Event&)>& emit) {
    for (const FileMapping& mapping : mappings) {
        if (mapping.begin < space.guest_base) continue;
        if (const auto first = space.page_cache.of_mapping(mapping))
            emit(pages(EventKind::map_file, mapping.begin - space.guest_base,
                       mapping.end - mapping.begin,
                       *first | (mapping.shared ? shared_mapping : 0)));
    }
}

std::optional<Event> unmapped_by(const SystemCall& call, AddressSpace& space) {
    const auto& argument = call.argument;
    if (call.number == nr::brk) {
        if (space.lowest_break == 0 || argument[0] < space.lowest_break ||
            argument[0] >= space.program_break)
            return std::nullopt;
        const std::uint64_t old_end = end_page(std::exchange(space.program_break, argument[0]));
        const std::uint64_t new_end = end_page(argument[0]);
        if (new_end == old_end) return std::nullopt;
        return Event{EventKind::unmap, new_end, old_end - new_end};
    }
    if (call.number != nr::munmap || argument[1] == 0 || argument[0] % page_bytes != 0)
        return std::nullopt;
    return pages(EventKind::unmap, argument[0], argument[1]);
}

void page_events(const SystemCall& call, std::int64_t result, AddressSpace& space,
                 const std::function<void(const Event&)>& emit) {
    if (result < 0 && result > -4096) return;  // an errno
    const auto& argument = call.argument;
    const auto value = static_cast<std::uint64_t>(result);
    const auto advise = [&](std::uint64_t address, std::uint64_t bytes, bool large) {
        const Event event = pages(EventKind::advise, address, bytes, large ? 1 : 0);
        space.advice.assign(event.address, event.count, large);
        emit(event);
    };
    switch (call.number) {
        case nr::mmap:
            space.advice.assign(value / page_bytes, end_page(argument[1]), false);
            if (argument[3] & MAP_FIXED) emit(pages(EventKind::unmap, value, argument[1]));
            if (argument[3] & MAP_ANONYMOUS) {
                if (is_shared(argument[3])) present_shared(space, space.guest_base + value, emit);
                break;
            }
            if (const auto first =
                    space.page_cache.of_descriptor(static_cast<int>(argument[4]), argument[5]))
                emit(pages(EventKind::map_file, value, argument[1],
                           *first | (is_shared(argument[3]) ? shared_mapping : 0)));
            break;
        case nr::brk:
            if (space.lowest_break == 0) space.lowest_break = value;
            // That it fell was noted before the call, and another thread may have raised it since.
            space.program_break = std::max(space.program_break, value);
            break;
        case nr::mremap: {
            const std::uint64_t kept = std::min(argument[1], argument[2]);
            if (kept < argument[1]) {
                emit(pages(EventKind::unmap, argument[0] + kept, argument[1] - kept));
            }
            if (value != argument[0]) {
                emit(pages(EventKind::remap, argument[0], kept, value / page_bytes));
            }
            // The mapping keeps the advice wherever it goes, and what is new of it has that, too.
            if (space.advice.at(argument[0] / page_bytes)) advise(value, argument[2], true);
            break;
        }
        case nr::madvise:
            if (argument[2] == MADV_DONTNEED || argument[2] == MADV_FREE ||
                argument[2] == MADV_REMOVE) {
                emit(pages(EventKind::discard, argument[0], argument[1]));
            } else if (argument[2] == MADV_HUGEPAGE || argument[2] == MADV_NOHUGEPAGE) {
                advise(argument[0], argument[1], argument[2] == MADV_HUGEPAGE);
            }
            break;
        case nr::read:
        case nr::pread64:
        case nr::recvfrom:
            if (result > 0) emit(pages(EventKind::page_write, argument[1], value));
            break;
        case nr::readv:
        case nr::preadv:
        case nr::preadv2:
            vectors(reinterpret_cast<const iovec*>(space.guest_base + argument[1]), argument[2],
                    value, emit);
            break;
        case nr::recvmsg: {
            const auto* message = reinterpret_cast<const msghdr*>(space.guest_base + argument[1]);
            vectors(reinterpret_cast<const iovec*>(
                        space.guest_base + reinterpret_cast<std::uint64_t>(message->msg_iov)),
                    message->msg_iovlen, value, emit);
            break;
        }
        default:
            break;
    }
}

}  // namespace pagelens
