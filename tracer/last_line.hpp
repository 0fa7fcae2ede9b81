// Whether the program left its last line of output unfinished, on the standard output and on the
// standard error that it was started with. The driver begins its own messages on a new line then.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "tracer/clock.hpp"
#include "tracer/status.hpp"
#include "tracer/system_calls.hpp"

namespace pagelens {

class LastLine {
  public:
    // Make this before the program runs, because the program may replace the files.
    LastLine() : streams_{{1}, {2}} {}

    // Call this from any thread of the program, after the system call.
    void written(const SystemCall& call, std::int64_t result, std::uint64_t guest_base) {
        if (result <= 0 || (call.number != nr::write && call.number != nr::writev)) return;
        const auto descriptor = static_cast<int>(call.argument[0]);
        if (descriptor < 0 || descriptor > 2) return;
        const bool open = last_byte(call, static_cast<std::uint64_t>(result), guest_base) != '\n';
        for (Stream& stream : streams_) {
            if (!stream.is(descriptor)) continue;
            stream.unfinished = open;
            stream.time_ns = time_of_day();
        }
    }

    // Programs that run after or beside one another each report; the latest write counts.
    void report_to(const std::string& status) const {
        for (const Stream& stream : streams_) {
            if (stream.time_ns == 0) continue;
            report(status, "line " + std::to_string(stream.descriptor) + " " +
                               std::to_string(stream.time_ns) + " " +
                               std::to_string(int{stream.unfinished}));
        }
    }

  private:
    struct Stream {
        int descriptor;
        struct stat file{};
        bool known = false;
        std::atomic<bool> unfinished{false};
        std::atomic<std::uint64_t> time_ns{0};  // of the last write; 0: none

        Stream(int number) : descriptor(number), known(::fstat(number, &file) == 0) {}
        bool is(int other) const {
            struct stat now{};
            return known && ::fstat(other, &now) == 0 && now.st_dev == file.st_dev &&
                   now.st_ino == file.st_ino;
        }
    };

    // The kernel has read these bytes, so they can be read.
    static char last_byte(const SystemCall& call, std::uint64_t written, std::uint64_t guest_base) {
        if (call.number == nr::write)
            return *reinterpret_cast<const char*>(guest_base + call.argument[1] + written - 1);
        const auto* part = reinterpret_cast<const iovec*>(guest_base + call.argument[1]);
        for (; written > part->iov_len; ++part) written -= part->iov_len;
        return *reinterpret_cast<const char*>(
            guest_base + reinterpret_cast<std::uint64_t>(part->iov_base) + written - 1);
    }

    Stream streams_[2];
};

}  // namespace pagelens
