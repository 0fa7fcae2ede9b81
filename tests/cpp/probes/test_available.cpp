#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "probes/available.hpp"

using pagelens::probes::available_bytes;

namespace {

// A made-up /proc and /sys/fs/cgroup.
class Tree {
  public:
    Tree() { REQUIRE(mkdtemp(folder_.data()) != nullptr); }
    ~Tree() { std::filesystem::remove_all(folder_); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    void write(const std::string& path, const std::string& text) const {
        const auto file = std::filesystem::path(folder_) / path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    [[nodiscard]] std::size_t available() const {
        const std::filesystem::path root(folder_);
        return available_bytes(root / "proc", root / "cgroup");
    }

  private:
    std::string folder_ = std::filesystem::temp_directory_path() / "pagelens_test_XXXXXX";
};

constexpr const char* meminfo =
    "MemTotal:        2000 kB\nMemFree:   500 kB\nMemAvailable:    1000 kB\nHugePages_Free: 0\n";
constexpr std::size_t kib = 1024;

}  // namespace

TEST_CASE("without groups what is available is the kernel's word, without that everything") {
    const Tree tree;
    CHECK(tree.available() == SIZE_MAX);
    tree.write("proc/meminfo", meminfo);
    CHECK(tree.available() == 1000 * kib);
    CHECK(available_bytes() > 0);
    CHECK(available_bytes() < SIZE_MAX);
}

TEST_CASE("groups of version 2 limit what is available, all the way up") {
    const Tree tree;
    tree.write("proc/meminfo", meminfo);
    tree.write("proc/self/cgroup", "0::/jobs/one:two/step\n");
    tree.write("cgroup/jobs/one:two/step/memory.max", "max\n");
    tree.write("cgroup/jobs/one:two/step/memory.current", "4096\n");
    CHECK(tree.available() == 1000 * kib);
    tree.write("cgroup/jobs/one:two/step/memory.max", "921600\n");
    CHECK(tree.available() == 921600 - 4096);
    tree.write("cgroup/jobs/memory.max", "409600\n");
    tree.write("cgroup/jobs/memory.current", "204800\n");
    CHECK(tree.available() == 204800);
    tree.write("cgroup/jobs/memory.stat", "anon 1\ninactive_file 102400\nactive_file 7\n");
    CHECK(tree.available() == 307200);  // cache of files makes room
    tree.write("cgroup/memory.max", "8192\n");
    tree.write("cgroup/memory.current", "9000\n");
    CHECK(tree.available() == 0);  // more is used than allowed
}

TEST_CASE("groups of version 1 limit what is available, beside those of version 2") {
    const Tree tree;
    tree.write("proc/meminfo", meminfo);
    tree.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/job\n1:cpu:/other\n0::/two\n");
    tree.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree.write("cgroup/memory/memory.usage_in_bytes", "40960\n");
    CHECK(tree.available() == 1000 * kib);
    tree.write("cgroup/memory/job/memory.limit_in_bytes", "819200\n");
    tree.write("cgroup/memory/job/memory.usage_in_bytes", "409600\n");
    CHECK(tree.available() == 409600);
    tree.write("cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 4096\n");
    CHECK(tree.available() == 413696);
    tree.write("cgroup/memory/other/memory.limit_in_bytes", "0\n");  // of no process of ours
    tree.write("cgroup/memory/other/memory.usage_in_bytes", "0\n");
    CHECK(tree.available() == 413696);
    tree.write("cgroup/unified/two/memory.max", "4096\n");
    tree.write("cgroup/unified/two/memory.current", "0\n");
    CHECK(tree.available() == 4096);
}

TEST_CASE("a container whose group is named by the host's path has the mount's root") {
    const Tree tree;
    tree.write("proc/self/cgroup", "0::/../../docker/abc\n");
    tree.write("cgroup/memory.max", "81920\n");
    tree.write("cgroup/memory.current", "1920\n");
    CHECK(tree.available() == 80000);
}
