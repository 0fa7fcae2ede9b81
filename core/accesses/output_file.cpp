#include "core/accesses/output_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

namespace pagelens {

namespace {

// The kernel's table of descriptors is as long as the highest one needs, and fork copies it.
constexpr ::rlim_t highest = 1 << 16;

// Moves `file` to a number from the program's limit on, or as close to it as there is one, and
// returns that.
int out_of_the_way(int file) {
    ::rlimit limit{};
    if (file < 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return file;
    ::rlimit raised = limit;
    raised.rlim_cur = std::min(limit.rlim_cur + 1, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &raised);
    const ::rlim_t wanted = std::min(raised.rlim_cur - 1, highest);
    const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, static_cast<int>(wanted));
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (moved < 0) return file;
    ::close(file);
    return moved;
}

// While an object of this class lives, writing beyond the limit of a file's size does not send this
// thread the signal that would end the program.
class WithoutSizeSignal {
  public:
    WithoutSizeSignal() {
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGXFSZ);
        ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    }
    ~WithoutSizeSignal() {
        constexpr ::timespec now{};
        if (!was_pending_) ::sigtimedwait(&signal_, nullptr, &now);
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    WithoutSizeSignal(const WithoutSizeSignal&) = delete;
    WithoutSizeSignal& operator=(const WithoutSizeSignal&) = delete;

  private:
    sigset_t signal_{}, before_{};
    bool was_pending_ = false;
};

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
    file_ = out_of_the_way(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    struct stat status{};
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
        throw std::system_error(errno, std::generic_category(), path_);
    }
    device_ = status.st_dev;
    number_ = status.st_ino;
}

bool OutputFile::is_ours() const {
    struct stat status{};
    return ::fstat(file_, &status) == 0 && status.st_dev == device_ && status.st_ino == number_;
}

// Opens the file again where the program has closed it.
int OutputFile::find() {
    if (file_ < 0) return EBADF;
    if (is_ours()) return 0;
    file_ = out_of_the_way(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (file_ < 0) return errno;
    if (is_ours()) return 0;
    ::close(std::exchange(file_, -1));  // by this name there is another file now
    return ESTALE;
}

int OutputFile::append(std::span<const std::uint8_t> bytes) {
    if (const int missing = find(); missing != 0) return missing;
    const WithoutSizeSignal without_signal;
    while (!bytes.empty()) {
        const ::ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int OutputFile::cut(std::uint64_t size) {
    if (const int missing = find(); missing != 0) return missing;
    return ::ftruncate(file_, static_cast<::off_t>(size)) == 0 ? 0 : errno;
}

int OutputFile::close() {
    if (file_ < 0) return 0;
    const int error = is_ours() && ::close(file_) != 0 ? errno : 0;
    file_ = -1;
    return error;
}

}  // namespace pagelens
