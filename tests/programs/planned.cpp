/*
 * Objects of two-level memory, each allocated by a function of its name: planned WORD... does what
 * the words say, and prints for each where its memory is to lie as /proc/self/numa_maps has it.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../hooks/pagelens.h"

#define OBJECT extern "C" __attribute__((noinline, noclone))

static const std::size_t page = 4096, mesh_bytes = 1 << 20;
double table[1 << 16];  // 512 KiB
static volatile int zero;

OBJECT char* take_mesh() { return static_cast<char*>(std::malloc(mesh_bytes + zero)); }
OBJECT char* take_zeroed() { return static_cast<char*>(std::calloc(mesh_bytes + zero, 1)); }
OBJECT char* take_new() { return new char[mesh_bytes + zero]; }
OBJECT char* take_aligned() { return static_cast<char*>(std::aligned_alloc(1 << 16, mesh_bytes)); }
OBJECT char* take_row(std::size_t bytes) { return static_cast<char*>(std::malloc(bytes + zero)); }
OBJECT char* take_new_row(std::size_t bytes) { return new char[bytes + zero]; }
OBJECT char* grow(char* old, std::size_t bytes) {
    char* now = static_cast<char*>(std::realloc(old, bytes + zero));
    return now + zero;
}
OBJECT char* wrapper() { return take_mesh() + zero; }
OBJECT char* take_in_first() { return wrapper() + zero; }
OBJECT char* take_in_second() { return wrapper() + zero; }
OBJECT char* take_mapped(std::size_t bytes, int flags) {
    void* at = mmap(nullptr, bytes + zero, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return static_cast<char*>(at) + zero;
}
OBJECT char* take_other() { return static_cast<char*>(std::malloc(mesh_bytes + zero)); }

/* The policy that numa_maps has for the mapping of an address. */
static std::string policy(const void* address) {
    std::ifstream maps("/proc/self/numa_maps");
    std::string line, found = "?";
    while (std::getline(maps, line)) {
        std::istringstream words(line);
        std::uintptr_t start = 0;
        std::string what;
        words >> std::hex >> start >> what;
        if (start <= reinterpret_cast<std::uintptr_t>(address)) found = what;
    }
    return found;
}

/* "12 x prefer:1, 244 x default": of the pages that begin in a block. */
static void say(const std::string& name, const char* block, std::size_t bytes) {
    std::memset(const_cast<char*>(block), 1, bytes);
    const auto first = (reinterpret_cast<std::uintptr_t>(block) + page - 1) & ~(page - 1);
    std::string before, line;
    std::size_t count = 0;
    const auto flush = [&] {
        if (count) line += (line.empty() ? "" : ", ") + std::to_string(count) + " x " + before;
    };
    std::vector<std::string> nodes;
    for (std::uintptr_t at = first; at < reinterpret_cast<std::uintptr_t>(block) + bytes;
         at += page) {
        void* asked = reinterpret_cast<void*>(at);
        int node = -1;
        syscall(SYS_move_pages, 0, 1, &asked, nullptr, &node, 0);
        const std::string now = policy(asked) + " on " + std::to_string(node);
        if (now != before) flush(), before = now, count = 0;
        ++count;
    }
    flush();
    std::printf("%s: %s\n", name.c_str(), line.c_str());
    std::fflush(stdout);
}

static void say_rows(const std::string& name, char* (*take)(std::size_t)) {
    std::size_t fast = 0, wrong = 0;
    std::vector<std::pair<char*, std::size_t>> rows;
    std::uint32_t state = 1;
    for (int i = 0; i < 4000; ++i) {
        state = state * 1664525 + 1013904223;
        const std::size_t bytes = 1 + (state >> 8) % (i % 50 ? 300 : 60000);
        char* row = take(bytes);
        std::memset(row, i, bytes);
        rows.emplace_back(row, bytes);
        if (i % 3 == 0) {
            const std::size_t at = (state >> 4) % rows.size();
            if (take == take_row)
                std::free(rows[at].first);
            else
                delete[] rows[at].first;
            rows[at].first = take(rows[at].second);
            std::memset(rows[at].first, static_cast<int>(at), rows[at].second);
        }
    }
    std::size_t seen = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t at = 0; at < rows[i].second; ++at)
            wrong += rows[i].first[at] != static_cast<char>(i);
        if (i % 40 == 0) fast += policy(rows[i].first).find("prefer") == 0, ++seen;
    }
    std::printf("%s: %zu of %zu fast, %zu wrong\n", name.c_str(), fast, seen, wrong);
    std::fflush(stdout);
}

/* Maps, gives parts back, and lets mappings grow, shrink and move; what was written must stay. */
static void say_mapped() {
    const std::size_t bytes = mesh_bytes;
    say("mapped", take_mapped(bytes, 0), bytes);
    say("mapped-filled", take_mapped(bytes, MAP_POPULATE), bytes);
    char* cut = take_mapped(bytes, 0);
    say("mapped-cut", cut, bytes);
    munmap(cut + bytes / 4, bytes / 4);  // on either side of the border of a half
    munmap(cut + bytes / 2, bytes / 4);
    say("mapped-first", cut, bytes / 4);
    say("mapped-last", cut + bytes / 4 * 3, bytes / 4);
    char* grown = take_mapped(bytes, 0);
    std::memset(grown, 5, bytes);
    grown = static_cast<char*>(mremap(grown, bytes, 2 * bytes, MREMAP_MAYMOVE));
    if (grown == MAP_FAILED) std::puts("mapped-grown: failed");
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < bytes; ++at) wrong += grown[at] != 5;
    say("mapped-grown", grown, 2 * bytes);
    grown = static_cast<char*>(mremap(grown, 2 * bytes, bytes / 2, 0));
    say("mapped-shrunk", grown, bytes / 2);
    char* there =
        static_cast<char*>(mmap(nullptr, bytes / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    grown = static_cast<char*>(
        mremap(grown, bytes / 2, bytes / 2, MREMAP_MAYMOVE | MREMAP_FIXED, there));
    if (grown != there) ++wrong;
    say("mapped-moved", grown, bytes / 2);
    std::printf("mapped-wrong: %zu\n", wrong);
    munmap(grown, bytes / 2);
    char* over = take_mapped(bytes, 0);  // and another mapping over it, which is nobody's
    over = static_cast<char*>(
        mmap(over, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    say("mapped-over", over, bytes);
    for (int i = 0; i < 1000; ++i) munmap(take_mapped(bytes, 0), bytes);
}

static volatile std::sig_atomic_t handled, mapping;
static void map_in_handler(int) {
    char* at = take_mapped(mesh_bytes, 0);
    mapping += munmap(at, mesh_bytes) == 0;
    handled = handled + 1;
}

/* What few programs do: the pages of a mapping go elsewhere without it; a handler of signals maps;
 * nobody has a page before it is touched. */
static void say_mapped_oddly() {
    char* left = take_mapped(mesh_bytes, 0);
    unsigned char there[mesh_bytes / page];
    mincore(left, mesh_bytes, there);
    std::size_t present = 0;
    for (unsigned char page_there : there) present += page_there & 1;
    std::memset(left, 5, mesh_bytes);
    char* gone = static_cast<char*>(
        mremap(left, mesh_bytes, mesh_bytes, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */));
    std::size_t wrong = gone == MAP_FAILED;
    for (std::size_t at = 0; !wrong && at < mesh_bytes; ++at) wrong += gone[at] != 5 || left[at];
    std::printf("odd: %zu present, %zu wrong\n", present, wrong);
    if (!wrong) say("odd-gone", gone, mesh_bytes), say("odd-left", left, mesh_bytes);
    std::fflush(stdout);
    std::signal(SIGVTALRM, map_in_handler);
    const itimerval often{{0, 50}, {0, 50}}, never{};
    setitimer(ITIMER_VIRTUAL, &often, nullptr);
    while (handled < 200) munmap(take_mapped(mesh_bytes, 0), mesh_bytes);
    setitimer(ITIMER_VIRTUAL, &never, nullptr);
    std::printf("handler: %s\n", mapping == handled ? "mapped" : "could not");
}

/* Where objects lie in each of two regions, twice; another thread marks regions meanwhile. */
static void say_regions() {
    char *mesh = take_mesh(), *zeroed = take_zeroed(), *mapped = take_mapped(mesh_bytes, 0);
    std::size_t wrong = 0;
    const auto say_all = [&](const std::string& name) {
        for (char* block : {mesh, zeroed, mapped})
            for (std::size_t at = 0; at < mesh_bytes; ++at) wrong += block[at] > 1;
        say(name + "-mesh", mesh, mesh_bytes);
        say(name + "-zeroed", zeroed, mesh_bytes);
        say(name + "-mapped", mapped, mesh_bytes);
        say(name + "-table", reinterpret_cast<char*>(table), sizeof table);
    };
    for (char* block : {mesh, zeroed, mapped}) std::memset(block, 1, mesh_bytes);
    say_all("before");
    for (int round = 1; round <= 2; ++round)
        for (const std::string region : {"first", "second"}) {
            pagelens_region_begin(region.c_str());
            std::thread([] {
                pagelens_region_begin("elsewhere");
                pagelens_region_begin("second");
                pagelens_region_end("second");
                pagelens_region_end("first");
            }).join();
            say_all(region + std::to_string(round));
            if (round == 2) {
                pagelens_region_begin("unknown");
                say("within-mesh", mesh, mesh_bytes);
                pagelens_region_end("unknown");
                char* born = take_mesh();
                say(region + "-born", born, mesh_bytes);
                std::free(born);
            }
            pagelens_region_end(region.c_str());
        }
    say_all("outside");
    mapped = static_cast<char*>(mremap(mapped, mesh_bytes, 2 * mesh_bytes, MREMAP_MAYMOVE));
    std::printf("regions: %zu wrong, %s\n", wrong, mapped == MAP_FAILED ? "failed" : "grown");
    if (fork() == 0) {
        pagelens_region_begin("second");
        say("child-zeroed", zeroed, mesh_bytes);
        std::fflush(stdout);
        _exit(0);
    }
    wait(nullptr);
}

int main(int words, char** word) {
    for (int i = 1; i < words; ++i) {
        const std::string name = word[i];
        if (name == "mesh") say(name, take_mesh(), mesh_bytes);
        if (name == "zeroed") say(name, take_zeroed(), mesh_bytes);
        if (name == "new") say(name, take_new(), mesh_bytes);
        if (name == "aligned") say(name, take_aligned(), mesh_bytes);
        if (name == "first") say(name, take_in_first(), mesh_bytes);
        if (name == "second") say(name, take_in_second(), mesh_bytes);
        if (name == "mapped") say_mapped();
        if (name == "odd") say_mapped_oddly();
        if (name == "regions") say_regions();
        if (name == "begun") {  // and never ended
            for (int round = 0; round < 100; ++round) {
                pagelens_region_begin("first");
                pagelens_region_begin("second");
            }
            say(name, take_zeroed(), mesh_bytes);
        }
        if (name == "ended") {  // threads that end within a region
            char* zeroed = take_zeroed();
            for (int i = 0; i < 2; ++i) std::thread([] { pagelens_region_begin("first"); }).join();
            std::thread([] {
                pagelens_region_begin("second");
                pagelens_region_end("second");
            }).join();
            say(name, zeroed, mesh_bytes);
            pagelens_region_begin("first");
            std::thread([] { pagelens_region_begin("second"); }).join();
            say("ended-main", zeroed, mesh_bytes);
            if (fork() == 0) {
                pagelens_region_end("first");
                std::thread([] { pagelens_region_begin("second"); }).join();
                say("ended-child", zeroed, mesh_bytes);
                _exit(0);
            }
            wait(nullptr);
        }
        if (name == "mark") {
            pagelens_region_begin("first");
            pagelens_region_end("first");
        }
        if (name == "other") say(name, take_other(), mesh_bytes);
        if (name == "grown") {
            char* small = static_cast<char*>(std::malloc(100));
            say(name, grow(small, mesh_bytes), mesh_bytes);
        }
        if (name == "table") say(name, reinterpret_cast<char*>(table), sizeof table);
        if (name == "rows") say_rows(name, take_row);
        if (name == "new-rows") say_rows(name, take_new_row);
        if (name == "steps")  // as time steps have them
            for (int step = 0; step < 100; ++step) {
                char* mesh = take_mesh();
                std::memset(mesh, step, mesh_bytes);
                std::free(mesh);
            }
        if (name == "fork") {
            char* mesh = take_mesh();
            std::memset(mesh, 7, mesh_bytes);
            if (fork() == 0) {
                say("child", take_mesh(), mesh_bytes);
                _exit(mesh[mesh_bytes - 1] - 7);
            }
            int status = 1;
            wait(&status);
            std::printf("fork: %d\n", status);
        }
        if (name == "threads") {
            std::vector<std::thread> threads;
            for (int t = 0; t < 8; ++t)
                threads.emplace_back([] {
                    for (int n = 0; n < 20000; ++n) {
                        char* row = take_row(1 + n % 500);
                        row[0] = 1;
                        std::free(row);
                    }
                });
            for (std::thread& thread : threads) thread.join();
            std::puts("threads: done");
        }
    }
}
