// Stacks become numbered call sites: over a /proc/PID/maps and ELF files made here.
#include <doctest/doctest.h>
#include <elf.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tracer/call_sites.hpp"
#include "tracer/elf_image.hpp"

using namespace pagelens;
using Addresses = std::vector<std::uint64_t>;

namespace {

// A folder of small ELF files. Each has two segments, as linkers make them: 0x1800 bytes of code
// at 0, and 0x100 bytes of data of which the file holds 0x80, at 0x2800.
class Files {
  public:
    Files() { REQUIRE(mkdtemp(folder_.data()) != nullptr); }
    ~Files() { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return folder_ + "/" + name; }

    void write_elf(const std::string& name, const std::string& build_id) const {
        std::string bytes(0x1880, '\0');
        const auto put = [&](std::size_t at, const auto& value) {
            std::memcpy(bytes.data() + at, &value, sizeof value);
        };
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_phoff = sizeof header;
        header.e_phentsize = sizeof(Elf64_Phdr);
        header.e_phnum = 3;
        put(0, header);
        put(sizeof header, Elf64_Phdr{PT_LOAD, PF_X, 0, 0, 0, 0x1800, 0x1800, 0x1000});
        put(sizeof header + sizeof(Elf64_Phdr),
            Elf64_Phdr{PT_LOAD, PF_W, 0x1800, 0x2800, 0, 0x80, 0x2100, 0x1000});
        put(sizeof header + 2 * sizeof(Elf64_Phdr),
            Elf64_Phdr{PT_NOTE, PF_R, 0x400, 0x400, 0, 36 + build_id.size(), 0, 4});
        // Another note first, with a name and a description that need padding.
        put(0x400, Elf64_Nhdr{2, 3, 1});
        put(0x414, Elf64_Nhdr{4, static_cast<Elf64_Word>(build_id.size()), NT_GNU_BUILD_ID});
        std::memcpy(bytes.data() + 0x420, "GNU", 4);
        std::memcpy(bytes.data() + 0x424, build_id.data(), build_id.size());
        write(name, bytes);
    }
    void write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path(name), std::ios::binary) << bytes;
    }

  private:
    std::string folder_ = std::filesystem::temp_directory_path() / "pagelens_test_XXXXXX";
};

constexpr std::uint64_t guest_base = 0x10000;

// Guest addresses of the modules' first bytes, and of memory that is no module.
constexpr std::uint64_t app = 0x100000, model = 0x200000, libc = 0x300000, libstdcxx = 0x400000,
                        hooks = 0x500000, generated = 0x600000, later = 0x700000;

struct Fixture {
    Files files;
    std::string maps;
    std::vector<ModuleDefinition> modules;
    std::vector<Addresses> sites;  // by number - 1
    Modules map{guest_base, [this](const ModuleDefinition& m) { modules.push_back(m); },
                files.path("maps")};
    CallSites call_sites{map, [this](const CallSiteDefinition& site) {
                             REQUIRE(site.id == sites.size() + 1);
                             sites.push_back(site.return_addresses);
                         }};

    Fixture() {
        place("app", app);
        place("libmodel v2.so", model);
        place("libc.so.6", libc);
        place("libstdc++.so.6.0.30", libstdcxx);
        place("libpagelens_hooks.so", hooks);
        files.write("data.bin", std::string(0x2000, 'x'));
        add_mapping("data.bin", generated, generated + 0x2000, 0);
        maps += "00000000000a0000-00000000000b0000 rw-p 00000000 00:00 0     [heap]\n";
        write_maps();
    }

    void place(const std::string& name, std::uint64_t base) {
        files.write_elf(name, "id of " + name);
        add_mapping(name, base, base + 0x2000, 0);
        add_mapping(name, base + 0x2000, base + 0x3000, 0x1000);
    }
    void add_mapping(const std::string& name, std::uint64_t begin, std::uint64_t end,
                     std::uint64_t offset) {
        char line[128];
        std::snprintf(line, sizeof line, "%lx-%lx r--p %08lx 08:01 11      ", begin + guest_base,
                      end + guest_base, offset);
        maps += line + files.path(name) + "\n";
    }
    void write_maps() { files.write("maps", maps); }
    std::uint32_t number(const Addresses& stack) { return call_sites.number(stack); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "modules: a module spans its segments, .bss included") {
    CHECK(map.find(model + 0x10)->module == 0);
    CHECK(map.find(app)->module == 1);
    CHECK(map.find(model + 0x4fff)->module == 0);  // .bss ends at 0x2800 + 0x2100, whole pages
    CHECK(!map.find(model + 0x5000));
    CHECK(!map.find(model - 1));
    CHECK(!map.find(generated));  // a file, but not ELF
    REQUIRE(modules.size() == 2);
    CHECK(modules[0].path == files.path("libmodel v2.so"));
    CHECK(modules[0].build_id == "id of libmodel v2.so");
    CHECK(modules[0].base == model);
    CHECK(modules[0].start == model);
    CHECK(modules[0].size == 0x5000);
    // Of the data the file holds what is on the first of their three pages.
    CHECK(modules[0].file_backed == std::vector<ByteRange>{{model, 0x3000}});
}

TEST_CASE_FIXTURE(Fixture, "modules: one loaded later is found, one replaced is not mistaken") {
    const auto before = number({model + 8});
    place("plugin.so", later);
    write_maps();
    CHECK(map.find(app));
    CHECK(!map.find(later));  // nothing said that the mappings changed
    map.changed(later, later + 0x1000);
    CHECK(map.find(later));

    const auto generation = map.generation();
    files.write_elf("libmodel v2.so", "another build");
    map.changed(model, model + 0x1000);
    CHECK(map.generation() > generation);
    CHECK(number({model + 8}) != before);
    CHECK(modules.back().build_id == "another build");
}

TEST_CASE_FIXTURE(Fixture, "modules: data that share the file's first page are no second module") {
    add_mapping("app", app + 0x3000, app + 0x4000, 0);
    write_maps();
    CHECK(map.find(app + 0x3000)->module == map.find(app)->module);
    CHECK(!map.find(app + 0x5000));
}

TEST_CASE_FIXTURE(Fixture, "modules: one still there after a change near it is the same") {
    const auto before = number({model + 8});
    map.changed(model + 0x2000, model + 0x3000);
    CHECK(number({model + 8}) == before);
    CHECK(modules.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "call sites: frames of the interposer and of runtimes are stripped") {
    CHECK(number({hooks + 8, libstdcxx + 8, app + 8, app + 80}) == 1);
    CHECK(number({hooks + 9, libc + 8, app + 8, app + 80}) == 1);
    CHECK(number({app + 8, app + 80}) == 1);
    CHECK(number({app + 8, app + 81}) == 2);
    CHECK(sites[0] == Addresses{app + 8, app + 80});
}

TEST_CASE_FIXTURE(Fixture, "call sites: who called the program's code for it does not matter") {
    const auto site = number({hooks + 8, app + 8, app + 80, libc + 8, app + 16});
    CHECK(number({app + 8, app + 80, libstdcxx + 8}) == site);
    CHECK(number({app + 8, app + 80}) == site);
    CHECK(sites[site - 1] == Addresses{app + 8, app + 80});
}

TEST_CASE_FIXTURE(Fixture, "call sites: a return address past the end of a module belongs to it") {
    CHECK(number({model + 0x5000}) == 1);
    CHECK(sites[0] == Addresses{model + 0x5000});
}

TEST_CASE_FIXTURE(Fixture, "call sites: libc's own blocks keep their frames") {
    CHECK(number({hooks + 8, libc + 8}) == 1);
    CHECK(sites[0] == Addresses{hooks + 8, libc + 8});
}

TEST_CASE_FIXTURE(Fixture, "call sites: generated code has no frames") {
    CHECK(number({generated + 8}) == 0);
    CHECK(number({}) == 0);
    CHECK(number({generated + 8, app + 8}) == number({app + 8}));
}

TEST_CASE_FIXTURE(Fixture, "call sites: only the innermost frames are the key") {
    Addresses stack;
    for (std::uint64_t i = 0; i < call_site_depth; ++i) stack.push_back(app + 16 * (i + 1));
    const auto site = number(stack);
    CHECK(sites[site - 1] == stack);
    stack.push_back(app + 0x700);
    CHECK(number(stack) == site);
}

TEST_CASE_FIXTURE(Fixture, "call sites: the cache gives what the table gives, on every thread") {
    std::vector<std::vector<std::uint32_t>> numbers(4);
    std::vector<std::thread> threads;
    for (auto& mine : numbers)
        threads.emplace_back([this, &mine] {
            CallSiteCache cache(call_sites, map);
            for (int round = 0; round < 2; ++round)
                for (std::uint64_t i = 1; i <= 3000; ++i) {
                    ShadowStack stack;
                    stack.call(app + 0x10, 1000);
                    stack.call(model + i, 900);
                    stack.call(hooks + 8, 800);
                    mine.push_back(cache.number(stack));
                }
        });
    for (auto& thread : threads) thread.join();
    REQUIRE(sites.size() == 3000);
    for (const auto& mine : numbers) CHECK(mine == numbers[0]);
    for (std::uint64_t i = 0; i < 3000; ++i) {
        CHECK(sites[numbers[0][i] - 1] == Addresses{model + i + 1, app + 0x10});
        CHECK(numbers[0][i] == numbers[0][3000 + i]);
    }
}

TEST_CASE("modules: roles go by the name of the file") {
    CHECK(role_of("/lib/x86_64-linux-gnu/libc.so.6") == ModuleRole::runtime);
    CHECK(role_of("/lib/libc-2.31.so") == ModuleRole::runtime);
    CHECK(role_of("/lib64/ld-linux-x86-64.so.2") == ModuleRole::runtime);
    CHECK(role_of("libstdc++.so.6") == ModuleRole::runtime);
    CHECK(role_of("/opt/pagelens/lib/libpagelens_hooks.so") == ModuleRole::hooks);
    CHECK(role_of("/lib/libcrypto.so.3") == ModuleRole::program);
    CHECK(role_of("/lib/libc-client.so") == ModuleRole::program);
    CHECK(role_of("/opt/libc.so.d/app") == ModuleRole::program);
    CHECK(role_of("/lib/libgfortran.so.5") == ModuleRole::runtime);
    CHECK(role_of("/lib/libmkl_core.so.2") == ModuleRole::program);
}

TEST_CASE_FIXTURE(Files, "elf: what is not a whole ELF file is none") {
    write_elf("whole", "identity");
    CHECK(read_elf(path("whole"))->build_id == "identity");
    write("short", std::string("\x7f"
                               "ELF\x02",
                               5));
    CHECK(!read_elf(path("short")));
    CHECK(!read_elf(path("missing")));
    CHECK(!read_elf("/dev/null"));
    CHECK(read_elf("/proc/self/exe")->end > read_elf("/proc/self/exe")->begin);
}
