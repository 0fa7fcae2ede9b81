// Stacks become numbered call sites: over a captured /proc/PID/maps with known modules.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tracer/call_sites.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t guest_base = 0x10000;

// Two program modules, libc, libstdc++ and the interposer at guest addresses; more on request.
struct MapsFile {
    std::string path = std::filesystem::temp_directory_path() / "pagelens_test_maps_XXXXXX";
    std::string text =
        "0000000000011000-0000000000012000 r--p 00000000 08:01 11    /opt/app/app\n"
        "0000000000012000-0000000000014000 r--p 00001000 08:01 11    /opt/app/app\n"
        "0000000000020000-0000000000030000 r--p 00000000 08:01 12    /opt/app/libmodel v2.so\n"
        "0000000000040000-0000000000050000 r--p 00000000 08:01 13    /usr/lib/libc.so.6\n"
        "0000000000050000-0000000000060000 r--p 00000000 08:01 14    /usr/lib/libstdc++.so.6.0.30\n"
        "0000000000060000-0000000000070000 r--p 00002000 08:01 15    /x/libpagelens_hooks.so\n"
        "0000000000080000-0000000000090000 rw-p 00000000 00:00 0 \n"
        "00000000000a0000-00000000000b0000 rw-p 00000000 00:00 0     [stack]\n";

    MapsFile() {
        const int fd = mkstemp(path.data());
        REQUIRE(fd >= 0);
        close(fd);
        write();
    }
    ~MapsFile() { std::filesystem::remove(path); }
    void write() { std::ofstream(path) << text; }
};

struct Fixture {
    MapsFile maps;
    std::vector<std::string> modules;
    std::vector<std::vector<CodeAddress>> sites;  // by number - 1
    Modules map{guest_base,
                [this](std::uint32_t index, const std::string& path, const std::string&) {
                    REQUIRE(index == modules.size());
                    modules.push_back(path);
                },
                maps.path};
    CallSites call_sites{map, [this](std::uint32_t site, std::span<const CodeAddress> frames) {
                             REQUIRE(site == sites.size() + 1);
                             sites.emplace_back(frames.begin(), frames.end());
                         }};

    std::uint32_t number(std::vector<std::uint64_t> stack) { return call_sites.number(stack); }
};

// Guest addresses of code in each module.
constexpr std::uint64_t app = 0x2000, model = 0x10000, libc = 0x30000, libstdcxx = 0x40000,
                        hooks = 0x50000, generated = 0x70000;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "call sites: an address is an offset in its file") {
    CHECK(map.find(app + 0x10)->offset == 0x1010);
    CHECK(map.find(model + 0x10) == CodeAddress{1, 0x10});
    CHECK(map.find(app - 0x1000) == CodeAddress{0, 0});
    CHECK(!map.find(app - 0x1001));
    CHECK(!map.find(generated));
    CHECK(modules == std::vector<std::string>{"/opt/app/app", "/opt/app/libmodel v2.so"});
}

TEST_CASE_FIXTURE(Fixture, "call sites: frames of the interposer and the allocator are stripped") {
    CHECK(number({hooks + 8, libstdcxx + 8, app + 8, app + 80}) == 1);
    CHECK(number({hooks + 9, libc + 8, app + 8, app + 80}) == 1);
    CHECK(number({app + 8, app + 80}) == 1);
    CHECK(number({app + 8, app + 81}) == 2);
    CHECK(number({app + 8, libc + 8, app + 80}) == 3);  // libc inside the stack stays: qsort
    CHECK(sites[0] == std::vector<CodeAddress>{{0, 0x1008}, {0, 0x1050}});
}

TEST_CASE_FIXTURE(Fixture, "call sites: a return address past the end of a module belongs to it") {
    CHECK(number({model + 0x10000}) == 1);
    CHECK(sites[0] == std::vector<CodeAddress>{{0, 0x10000}});
}

TEST_CASE_FIXTURE(Fixture, "call sites: libc's own blocks keep their frames") {
    CHECK(number({hooks + 8, libc + 8}) == 1);
    CHECK(sites[0].size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "call sites: generated code has no frames") {
    CHECK(number({generated}) == 0);
    CHECK(number({}) == 0);
    CHECK(number({generated, app + 8}) == number({app + 8}));
}

TEST_CASE_FIXTURE(Fixture, "call sites: only the innermost frames are the key") {
    std::vector<std::uint64_t> stack;
    for (std::uint64_t i = 0; i < call_site_depth; ++i) stack.push_back(app + 16 * i);
    const auto site = number(stack);
    CHECK(sites[site - 1].size() == call_site_depth);
    stack.push_back(app + 0x700);
    CHECK(number(stack) == site);
}

TEST_CASE_FIXTURE(Fixture, "modules: one loaded later is found, one replaced is not mistaken") {
    const auto before = number({model + 8});
    maps.text += "00000000000c0000-00000000000d0000 r--p 00000000 08:01 16    /opt/app/plugin.so\n";
    maps.write();
    CHECK(!map.find(0xb0000));  // nothing said that the mappings changed
    map.changed(0xb0000, 0xc0000);
    CHECK(map.find(0xb0000).has_value());

    const auto generation = map.generation();
    maps.text.replace(maps.text.find("libmodel"), 8, "libother");
    maps.write();
    map.changed(model, model + 0x1000);
    CHECK(map.generation() != generation);
    CHECK(number({model + 8}) != before);
    CHECK(modules.back() == "/opt/app/libother v2.so");
}

TEST_CASE_FIXTURE(Fixture, "call sites: the cache gives what the table gives, on every thread") {
    std::vector<std::vector<std::uint32_t>> numbers(4);
    std::vector<std::thread> threads;
    for (auto& mine : numbers)
        threads.emplace_back([this, &mine] {
            CallSiteCache cache(call_sites, map);
            for (int round = 0; round < 2; ++round)
                for (std::uint64_t i = 0; i < 3000; ++i) {
                    ShadowStack stack;
                    stack.call(app + 1 + i % 0x1000, 1000);
                    stack.call(model + 1 + i, 900);
                    stack.call(hooks + 8, 800);
                    mine.push_back(cache.number(stack));
                }
        });
    for (auto& thread : threads) thread.join();
    CHECK(sites.size() == 3000);
    for (const auto& mine : numbers) CHECK(mine == numbers[0]);
    for (std::uint64_t i = 0; i < 3000; ++i) {
        CHECK(sites[numbers[0][i] - 1][0].offset == 1 + i);
        CHECK(numbers[0][i] == numbers[0][3000 + i]);
    }
}

TEST_CASE("modules: roles go by the name of the file") {
    CHECK(role_of("/lib/x86_64-linux-gnu/libc.so.6") == ModuleRole::allocator);
    CHECK(role_of("/lib/libc-2.31.so") == ModuleRole::allocator);
    CHECK(role_of("/lib64/ld-linux-x86-64.so.2") == ModuleRole::allocator);
    CHECK(role_of("libstdc++.so.6") == ModuleRole::allocator);
    CHECK(role_of("/opt/pagelens/lib/libpagelens_hooks.so") == ModuleRole::hooks);
    CHECK(role_of("/lib/libcrypto.so.3") == ModuleRole::program);
    CHECK(role_of("/lib/libc-client.so") == ModuleRole::program);
    CHECK(role_of("/opt/libc.so.d/app") == ModuleRole::program);
    CHECK(role_of("/lib/libgfortran.so.5") == ModuleRole::program);
}

TEST_CASE("modules: the build id of this test program is its linker's") {
    const std::string id = build_id_of("/proc/self/exe");
    CHECK(id.size() % 2 == 0);
    CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(build_id_of("/dev/null").empty());
    CHECK(build_id_of("/no/such/file").empty());
}
