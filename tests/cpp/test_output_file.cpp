// A file that is written to from within a program that closes and opens descriptors as it likes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "core/accesses/output_file.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

int append(OutputFile& file, const std::string& text) {
    return file.append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The descriptor of this process that shows the file; -1 if none does.
int descriptor_of(const std::string& path) {
    struct stat wanted{}, found{};
    REQUIRE(::stat(path.c_str(), &wanted) == 0);
    for (int number = 0; number <= 1 << 16; ++number) {
        if (::fstat(number, &found) == 0 && found.st_dev == wanted.st_dev &&
            found.st_ino == wanted.st_ino) {
            return number;
        }
    }
    return -1;
}

}  // namespace

TEST_CASE("output file: what is appended stands in it, after what was there was emptied") {
    const TemporaryFile temporary;
    std::ofstream(temporary.path) << "old";
    OutputFile file(temporary.path);
    CHECK(append(file, "one ") == 0);
    CHECK(append(file, "") == 0);
    std::ofstream(temporary.path, std::ios::app) << "theirs ";
    CHECK(append(file, "two") == 0);
    CHECK(file.close() == 0);
    CHECK(content(temporary.path) == "one theirs two");
    CHECK(append(file, "late") == EBADF);
    CHECK(file.close() == 0);
    CHECK(content(temporary.path) == "one theirs two");
}

TEST_CASE("output file: its descriptor is out of the program's way, and not inherited") {
    ::rlimit before{}, after{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    ::rlimit low = before;
    low.rlim_cur = 100;  // below the hard limit: there is a number that the program cannot have
    REQUIRE(low.rlim_cur < low.rlim_max);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    const TemporaryFile temporary;
    OutputFile file(temporary.path);
    ::getrlimit(RLIMIT_NOFILE, &after);
    ::setrlimit(RLIMIT_NOFILE, &before);
    CHECK(after.rlim_cur == low.rlim_cur);  // the program's limit is as it was
    CHECK(after.rlim_max == low.rlim_max);
    const int number = descriptor_of(temporary.path);
    CHECK(number == 100);  // and that is the only one
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("output file: closed by the program, it is opened again where it was") {
    const TemporaryFile temporary;
    OutputFile file(temporary.path);
    REQUIRE(append(file, "before ") == 0);
    const int number = descriptor_of(temporary.path);
    REQUIRE(::close(number) == 0);
    CHECK(append(file, "after") == 0);
    CHECK(content(temporary.path) == "before after");
    CHECK(descriptor_of(temporary.path) == number);
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("output file: what the program opened in its place is left alone") {
    const TemporaryFile temporary, foreign;
    std::ofstream(foreign.path) << "mine";
    OutputFile file(temporary.path);
    const int number = descriptor_of(temporary.path);
    const int other = ::open(foreign.path.c_str(), O_WRONLY | O_APPEND);
    REQUIRE(::dup2(other, number) == number);
    CHECK(append(file, "ours") == 0);
    CHECK(content(temporary.path) == "ours");
    CHECK(content(foreign.path) == "mine");

    const int again = descriptor_of(temporary.path);
    CHECK(again != number);
    REQUIRE(::dup2(other, again) == again);
    CHECK(file.close() == 0);
    CHECK(::fcntl(again, F_GETFD) != -1);  // the program's now, and open
    for (const int opened : {number, other, again}) ::close(opened);
}

TEST_CASE("output file: another file of that name is not written to") {
    const TemporaryFile temporary;
    OutputFile file(temporary.path);
    REQUIRE(::close(descriptor_of(temporary.path)) == 0);
    const std::string moved = temporary.path + ".moved";
    REQUIRE(::rename(temporary.path.c_str(), moved.c_str()) == 0);
    CHECK(append(file, "lost") == ENOENT);
    std::ofstream(temporary.path) << "theirs";
    CHECK(append(file, "lost") == EBADF);
    CHECK(content(temporary.path) == "theirs");
    ::unlink(moved.c_str());

    OutputFile second(temporary.path);
    REQUIRE(::close(descriptor_of(temporary.path)) == 0);
    REQUIRE(::rename(temporary.path.c_str(), moved.c_str()) == 0);
    std::ofstream(temporary.path) << "theirs";
    CHECK(append(second, "lost") == ESTALE);
    CHECK(append(second, "lost") == EBADF);
    CHECK(content(temporary.path) == "theirs");
    CHECK(descriptor_of(temporary.path) == -1);  // nor kept open
    ::unlink(moved.c_str());
}

TEST_CASE("output file: errors are the system's") {
    CHECK_THROWS_AS(OutputFile("/nonexistent/output"), std::system_error);
    OutputFile full("/dev/full");
    CHECK(append(full, "x") == ENOSPC);

    const TemporaryFile temporary;
    OutputFile file(temporary.path);
    ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const ::rlimit four{4, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &four) == 0);
    const int error = append(file, "123456");  // of which the system takes a part
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(error == EFBIG);
    CHECK(content(temporary.path) == "1234");
}
