// Compilation against a reference that does the same event by event, in the plainest way.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "core/accesses/compile.hpp"
#include "core/accesses/survey_and_compile.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/reference_caches.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t pages = 48;  // of the random programs, from page 1000 on
constexpr std::uint64_t first_page = 1000;
constexpr std::uint16_t mapping = 3, first_site = 4;  // objects, without modules

struct Stamped {
    std::uint64_t instructions;
    Event event;
};
using Thread = std::vector<Stamped>;

// Blocks of three sites come and go, small and large; lines are used between.
Thread random_thread(std::mt19937_64& random, std::size_t count) {
    Thread thread;
    std::uint64_t instructions = 0;
    std::uint64_t walk = random() % (pages * 64);
    const auto page = [&] { return first_page + random() % pages; };
    while (thread.size() < count) {
        if (random() % 8 == 0) instructions += random() % 100 * stamp_grain;
        Event event{};
        switch (random() % 40) {
            case 0:
                event = {EventKind::page_read, page(), 1, 0};
                break;
            case 1:
                event = {EventKind::page_write, page(), 1, 0};
                break;
            case 2: {
                const auto kind = random() % 2 == 0 ? EventKind::unmap : EventKind::discard;
                event = {kind, page(), random() % 4, 0};
                break;
            }
            case 3: {
                const std::uint64_t bytes =
                    random() % 4 == 0 ? random() % (20 * 4096) : random() % 300;
                instructions += stamp_grain;  // nothing right before it, which would be claimed
                event = {EventKind::birth, page() * 4096 + random() % 4096, bytes,
                         1 + random() % 3};
                break;
            }
            case 4:
                event = {EventKind::phase, 0, instructions, random() % 3};
                break;
            default:
                walk = random() % 6 == 0 ? random() % (pages * 64) : (walk + 1) % (pages * 64);
                event = {static_cast<EventKind>(random() % 5), first_page * 64 + walk, 0, 0};
        }
        thread.push_back({instructions, event});
    }
    return thread;
}

void write(const std::string& path, const std::vector<Thread>& threads) {
    TraceWriter writer(path, {});
    for (std::uint64_t site = 1; site <= 3; ++site) writer.define(CallSiteDefinition{site, {}});
    for (std::uint64_t id = 1; id <= 2; ++id)
        writer.define(PhaseDefinition{id, "phase " + std::to_string(id)});
    for (std::uint32_t id = 0; id < threads.size(); ++id) {
        for (const Stamped& item : threads[id]) {
            writer.thread(id).stamp(item.instructions);
            writer.thread(id).put(item.event);
        }
    }
    writer.finish({});
}

// An op of one line, or of none for the kinds that are not of lines.
using Step = std::tuple<OpKind, std::uint64_t, unsigned, std::uint16_t, unsigned>;  // page: virtual

class Reference {
  public:
    Reference(std::size_t threads, std::size_t sets, std::size_t ways)
        : sets_(sets), ways_(ways), caches_(threads, std::vector<std::vector<Line>>(sets)) {}

    void take(const Event& e, unsigned thread) {
        switch (e.kind) {
            case EventKind::page_read:
                map(e.address, OpKind::map_read, thread);
                break;
            case EventKind::page_write:
                map(e.address, OpKind::map_write, thread);
                break;
            case EventKind::unmap:
            case EventKind::discard:
                for (unsigned t = 0; t < caches_.size(); ++t)
                    for (std::uint64_t page = e.address; page < e.address + e.count; ++page)
                        if (mapped.contains(page))
                            for (std::uint64_t line = page * 64; line < page * 64 + 64; ++line)
                                drop(line, t);
                for (std::uint64_t page = e.address; page < e.address + e.count; ++page) {
                    if (mapped.erase(page) != 0)
                        steps.emplace_back(OpKind::unmap, page, 0, 0, thread);
                    if (e.kind == EventKind::unmap)
                        std::erase_if(owners, [&](auto& o) { return o.first / 64 == page; });
                }
                break;
            case EventKind::birth: {
                const auto site = static_cast<std::uint16_t>(first_site + e.extra - 1);
                for (std::uint64_t at = e.address; at < e.address + e.count; ++at)
                    owners[at / 64] = site;
                // Its header, but for that of a page, which may be a mapping.
                if (e.count > 0 && e.address % 64 < 16 && e.address % 4096 != 0)
                    owners.try_emplace(e.address / 64 - 1, site);
                break;
            }
            case EventKind::phase:
                steps.emplace_back(OpKind::phase, e.extra, 0, 0, thread);
                break;
            case EventKind::touch:
            case EventKind::stream_store:
            case EventKind::read:
            case EventKind::write:
            case EventKind::first_store:
                line(e, thread);
                break;
            default:
                break;
        }
    }

    std::vector<Step> steps;

  private:
    struct Line {
        std::uint64_t number;
        bool dirty;
    };

    void map(std::uint64_t page, OpKind kind, unsigned thread) {
        const auto found = mapped.find(page);
        if (found != mapped.end() && (found->second == OpKind::map_write || kind == found->second))
            return;
        mapped[page] = kind;
        steps.emplace_back(kind, page, 0, owner(page * 64), thread);
    }

    std::uint16_t owner(std::uint64_t line) {
        const auto found = owners.find(line);
        return found == owners.end() ? mapping : found->second;
    }

    void emit(OpKind kind, std::uint64_t line, unsigned thread) {
        steps.emplace_back(kind, line / 64, static_cast<unsigned>(line % 64), owner(line), thread);
    }

    void drop(std::uint64_t line, unsigned thread) {
        auto& set = caches_[thread][line % sets_];
        const auto found =
            std::find_if(set.begin(), set.end(), [&](const Line& l) { return l.number == line; });
        if (found == set.end()) return;
        if (found->dirty) emit(OpKind::write_back, line, thread);
        set.erase(found);
    }

    void line(const Event& e, unsigned thread) {
        if (!mapped.contains(e.address / 64)) {
            if (e.kind == EventKind::touch) return;  // the line went with its frame
            map(e.address / 64, OpKind::map_write, thread);
        }
        if (e.kind == EventKind::stream_store) {
            drop(e.address, thread);
            emit(OpKind::stream_store, e.address, thread);
            return;
        }
        auto& set = caches_[thread][e.address % sets_];  // the most recent last
        const auto found = std::find_if(set.begin(), set.end(),
                                        [&](const Line& l) { return l.number == e.address; });
        bool dirty = e.kind == EventKind::write || e.kind == EventKind::first_store;
        if (found != set.end()) {
            dirty |= found->dirty;
            set.erase(found);
        } else {
            if (e.kind == EventKind::touch) return;
            emit(OpKind::fetch, e.address, thread);
            if (set.size() == ways_) {
                const Line victim = set.front();
                set.erase(set.begin());
                if (victim.dirty) emit(OpKind::write_back, victim.number, thread);
            }
        }
        set.push_back({e.address, dirty});
    }

    std::size_t sets_, ways_;
    std::vector<std::vector<std::vector<Line>>> caches_;  // [thread][set]
    std::map<std::uint64_t, OpKind> mapped;
    std::map<std::uint64_t, std::uint16_t> owners;  // of lines
};

std::vector<Step> expand(const Program& program) {
    std::vector<Step> steps;
    const auto cursor = program.open();
    for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
        for (const Op& op : ops) {
            if (op.kind() == OpKind::phase) {
                steps.emplace_back(op.kind(), op.page, 0, op.object, op.thread);
            } else if (op.kind() == OpKind::unmap) {
                for (std::uint64_t i = 0; i < op.lines; ++i)
                    steps.emplace_back(op.kind(), program.pages()[op.page + i].raw(), 0, op.object,
                                       op.thread);
            } else if (op.kind() == OpKind::map_read || op.kind() == OpKind::map_write) {
                steps.emplace_back(op.kind(), program.pages()[op.page].raw(), 0, op.object,
                                   op.thread);
            } else {
                for (unsigned i = 0; i < lines_per_page; ++i)
                    if ((op.lines >> i & 1) != 0)
                        steps.emplace_back(op.kind(), program.pages()[op.page].raw(), i, op.object,
                                           op.thread);
            }
        }
    }
    return steps;
}

// Page runs keep the order of lines with the same index, and that of everything against a step that
// is not of lines: in this order two lists of steps mean the same if they are equal.
std::vector<Step> by_index(std::vector<Step> steps) {
    auto begin = steps.begin();
    const auto sort = [&](auto end) {
        std::stable_sort(begin, end, [](const Step& a, const Step& b) {
            return std::get<2>(a) < std::get<2>(b);
        });
    };
    for (auto at = steps.begin(); at != steps.end(); ++at) {
        if (std::get<0>(*at) <= OpKind::touch) continue;
        sort(at);
        begin = at + 1;
    }
    sort(steps.end());
    return steps;
}

std::vector<std::pair<Stamped, unsigned>> merged(const std::vector<Thread>& threads) {
    std::vector<std::pair<Stamped, unsigned>> all;
    for (unsigned t = 0; t < threads.size(); ++t)
        for (const Stamped& item : threads[t]) all.emplace_back(item, t);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.first.instructions < b.first.instructions;
    });
    return all;
}

}  // namespace

TEST_CASE("compile: equals the reference, whatever the program, its threads and the L1") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 40; ++round) {
        std::vector<Thread> threads;
        const std::size_t count = 1 + random() % 3;
        for (std::size_t t = 0; t < count; ++t) threads.push_back(random_thread(random, 2000));
        const TemporaryFile file;
        write(file.path, threads);
        const std::size_t ways = 1 + random() % 3;
        Reference reference(count, 64, ways);
        for (const auto& [item, thread] : merged(threads)) reference.take(item.event, thread);
        const auto program =
            compile(TraceReader(file.path), {{{{64, static_cast<std::uint32_t>(ways)}, 1}}, 12});
        CHECK(program->threads() == count);
        CHECK(program->objects() == first_site + 3);
        CHECK(program->phases() == 3);
        CHECK(std::is_sorted(program->pages().begin(), program->pages().end()));
        CHECK(by_index(expand(*program)) == by_index(reference.steps));
    }
}

TEST_CASE("compile: large pages let the L2 be run too, with the index bits of the large page") {
    std::mt19937_64 random(4);
    const Thread thread = random_thread(random, 6000);
    const TemporaryFile file;
    write(file.path, {thread});
    const TraceReader reader(file.path);
    // An L1 alone indexed by bits 6..14 of the virtual address equals the reference of 512 sets.
    Reference reference(1, 512, 1);
    for (const Stamped& item : thread) reference.take(item.event, 0);
    const auto l1 = compile(reader, {{{{512, 1}, 1}}, 21});
    CHECK(by_index(expand(*l1)) == by_index(reference.steps));
    CHECK_THROWS_AS(compile(reader, {{{{512, 1}, 1}}, 12}), std::invalid_argument);
}

TEST_CASE("compile: padding gives what the program would that had it in its addresses") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 30; ++round) {
        // Up to three pads of 1 to 40 pages before any of the pages.
        std::vector<VirtualPage> before;
        for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
            before.emplace_back(first_page + random() % pages);
        std::sort(before.begin(), before.end());
        const Padding padding(before, 1 + random() % 40);
        const auto moved = [&](std::uint64_t number, std::uint64_t unit) {
            return padding(VirtualPage(number / unit)).raw() * unit + number % unit;
        };
        Thread plain = random_thread(random, 3000), padded = plain;
        for (Stamped& stamped : padded) {
            Event& e = stamped.event;
            const auto move = [&](std::uint64_t unit) {
                const std::uint64_t last = e.address + std::max<std::uint64_t>(e.count, 1) - 1;
                e.address = moved(e.address, unit);
                if (e.count != 0) e.count = moved(last, unit) - e.address + 1;
            };
            if (e.kind <= EventKind::touch) e.address = moved(e.address, 64);
            if (e.kind >= EventKind::page_read && e.kind <= EventKind::discard) move(1);
            if (e.kind == EventKind::birth) move(4096);
        }
        const TemporaryFile file, padded_file;
        write(file.path, {plain});
        write(padded_file.path, {padded});
        const TraceReader reader(file.path), padded_reader(padded_file.path);
        for (const CompileOptions& options : {CompileOptions{{{{64, 2}, 1}}, 12},
                                              CompileOptions{{{{64, 1}, 1}, {{512, 2}, 1}}, 21}}) {
            CompileOptions with_padding = options;
            with_padding.padding = padding;
            const auto found = compile(reader, with_padding);
            CHECK(expand(*found) == expand(*compile(padded_reader, options)));
            CHECK(std::is_sorted(found->pages().begin(), found->pages().end()));
            // What lies below the page shift does not notice.
            if (options.page_bits > 12) continue;
            auto steps = expand(*compile(reader, options));
            for (auto& [kind, page, index, object, thread] : steps)
                if (kind != OpKind::phase) page = padding(VirtualPage(page)).raw();
            CHECK(expand(*found) == steps);
        }
    }
    CHECK_THROWS_AS(Padding({VirtualPage(2), VirtualPage(1)}, 1), std::invalid_argument);
}

TEST_CASE("compile: an L2 behind the L1 takes its misses and its dirty lines") {
    const TemporaryFile file;
    Thread thread;
    const auto access = [&](EventKind kind, std::uint64_t line) {
        thread.push_back({0, {kind, first_page * 64 + line, 0, 0}});
    };
    access(EventKind::write, 0);   // L1 and L2 miss
    access(EventKind::read, 64);   // L1 set 0 again: line 0 is dirty in L2 now
    access(EventKind::read, 0);    // L2 hit
    access(EventKind::read, 128);  // L2 set 0 of 128: pushes dirty line 0 out
    write(file.path, {thread});
    const auto program = compile(TraceReader(file.path), {{{{64, 1}, 1}, {{128, 1}, 1}}, 21});
    std::vector<std::pair<OpKind, std::uint64_t>> lines;
    for (const auto& [kind, page, index, object, t] : expand(*program))
        if (kind <= OpKind::touch) lines.emplace_back(kind, page * 64 + index - first_page * 64);
    using Lines = decltype(lines);
    CHECK(lines == Lines{{OpKind::fetch, 0},
                         {OpKind::fetch, 64},
                         {OpKind::fetch, 128},
                         {OpKind::write_back, 0}});
}

TEST_CASE("compile: two threads share an L2, each has its L1") {
    const TemporaryFile file;
    const Thread one{{0, {EventKind::read, first_page * 64, 0, 0}}};
    const Thread other{{stamp_grain, {EventKind::read, first_page * 64, 0, 0}}};
    write(file.path, {one, other});
    const TraceReader reader(file.path);
    CHECK(compile(reader, {{{{64, 8}, 1}, {{1024, 16}, 1}}, 21})->lines() == 2);
    CHECK(compile(reader, {{{{64, 8}, 1}, {{1024, 16}, 2}}, 21})->lines() == 1);
}

TEST_CASE("compile: a page moved by mremap keeps its frame, its old address is a new page") {
    const TemporaryFile file;
    const auto at = [](EventKind kind, std::uint64_t page) {
        return Stamped{0, {kind, page * 64, 0, 0}};
    };
    write(file.path, {{at(EventKind::write, 2000),
                       {0, {EventKind::remap, 2000, 1, 3000}},
                       at(EventKind::read, 3000),
                       at(EventKind::write, 2000)}});
    const auto program = compile(TraceReader(file.path), {{}, 12});
    std::vector<std::uint32_t> dense;
    const auto cursor = program->open();
    for (const Op& op : cursor->next())
        if (op.kind() == OpKind::fetch) dense.push_back(op.page);
    CHECK(dense == std::vector<std::uint32_t>{0, 0, 1});
    CHECK(program->pages()[0].raw() == 2000);
}

TEST_CASE("compile: the pages of files are those of all modules, by address") {
    const TemporaryFile file;
    {
        TraceWriter writer(file.path, {});
        writer.define(ModuleDefinition{"b.so", "", 0, 0x9000, 0x5000, {{0x9000, 0x2000}}});
        writer.define(
            ModuleDefinition{"a", "", 0, 0x1000, 0x8000, {{0x1000, 0x3000}, {0x7000, 0x1000}}});
        writer.define(ModuleDefinition{"of the first tracers", "", 0, 0x20000, 0x1000, {}});
        writer.finish({});
    }
    const auto program = compile(TraceReader(file.path), {{}, 12});
    std::vector<std::uint64_t> bounds;
    for (const auto& [begin, end] : program->file_pages()) {
        bounds.push_back(begin.raw());
        bounds.push_back(end.raw());
    }
    CHECK(bounds == std::vector<std::uint64_t>{1, 4, 7, 8, 9, 11});
}

TEST_CASE("compile: instructions are counted by phase and thread") {
    const TemporaryFile file;
    constexpr std::uint64_t k = stamp_grain;
    write(file.path, {{{1 * k, {EventKind::read, 1, 0, 0}},
                       {2 * k + 5, {EventKind::phase, 0, 2 * k + 5, 1}},
                       {4 * k, {EventKind::read, 2, 0, 0}}},
                      {{0, {EventKind::read, 9, 0, 0}}, {3 * k, {EventKind::read, 10, 0, 0}}}});
    const auto program = compile(TraceReader(file.path), {{}, 12});
    const auto counts = program->instructions();
    CHECK(std::vector<std::uint64_t>(counts.begin(), counts.end()) ==
          std::vector<std::uint64_t>{2 * k + 5, 3 * k, 2 * k - 5, 0, 0, 0});
}

TEST_CASE("compile: refuses an L1 that the trace is not exact for") {
    const TemporaryFile file;
    TraceHeader header;
    header.exact_for = {{64, 8}, {512, 2}};
    TraceWriter(file.path, header).finish({});
    const TraceReader reader(file.path);
    CHECK_NOTHROW(compile(reader, {{{{64, 8}, 1}}, 12}));
    CHECK_NOTHROW(compile(reader, {{{{64, 12}, 1}}, 12}));
    CHECK_NOTHROW(compile(reader, {{{{512, 2}, 1}}, 21}));
    CHECK_THROWS_AS(compile(reader, {{{{64, 7}, 1}}, 12}), std::invalid_argument);
    CHECK_THROWS_AS(compile(reader, {{{{256, 2}, 1}}, 21}), std::invalid_argument);
}

TEST_CASE("survey: what an allocator touches just before a block is born is the block's") {
    const TemporaryFile file;
    const std::uint64_t block = 5000 * 4096 + 16;
    const auto line = [&](std::uint64_t instructions, std::uint64_t i) {
        return Stamped{instructions, {EventKind::write, 5000 * 64 + i, 0, 0}};
    };
    write(file.path, {{line(0, 1),            // long before
                       line(stamp_grain, 0),  // the block's header, and that behind it
                       line(stamp_grain, 2),
                       line(stamp_grain, 9),
                       {stamp_grain, {EventKind::birth, block, 100, 1}},
                       line(stamp_grain, 0),
                       line(stamp_grain, 2),
                       {stamp_grain, {EventKind::birth, block + 112, 100, 2}}}});
    const Survey found = survey(TraceReader(file.path));
    CHECK(found.objects[first_site].lines_fetched == 4);
    CHECK(found.objects[first_site + 1].lines_fetched == 0);
    CHECK(found.lines_fetched == 6);
}

TEST_CASE("survey: lines of pages that nobody has written yet have no frame") {
    const TemporaryFile file;
    const auto line = [&](EventKind kind, std::uint64_t page, std::uint64_t i) {
        return Stamped{0, {kind, page * 64 + i, 0, 0}};
    };
    const auto first = [](EventKind kind, std::uint64_t page) {
        return Stamped{0, {kind, page, 0, 0}};
    };
    write(file.path,
          {{first(EventKind::page_read, 5000), line(EventKind::read, 5000, 0),
            line(EventKind::read, 5000, 1), first(EventKind::page_write, 5000),
            line(EventKind::write, 5000, 2), line(EventKind::read, 5000, 3),
            line(EventKind::write, 6000, 0)}});  // page 6000 was there before the trace began
    const Survey found = survey(TraceReader(file.path));
    CHECK(found.lines_fetched == 5);
    CHECK(found.lines_of_zero_page == 2);
}

TEST_CASE("survey: blocks of one site are one object, reused addresses go to the new one") {
    const TemporaryFile file;
    const std::uint64_t block = 5000 * 4096 + 16;
    const auto line = [&](EventKind kind, std::uint64_t i) {
        return Stamped{0, {kind, 5000 * 64 + i, 0, 0}};
    };
    write(file.path, {{{0, {EventKind::birth, block, 100, 1}},
                       {0, {EventKind::birth, block + 112, 100, 1}},
                       line(EventKind::write, 0),
                       line(EventKind::read, 2),
                       {0, {EventKind::death, block, 0, 0}},
                       {0, {EventKind::birth, block, 4096 * 64, 2}},  // a large one over both
                       line(EventKind::read, 0),
                       line(EventKind::first_store, 2),
                       {0, {EventKind::birth, block, 64, 3}},  // a small one within
                       line(EventKind::read, 1),
                       line(EventKind::read, 2),
                       {0, {EventKind::unmap, 5000, 1, 0}},
                       line(EventKind::read, 1)}});
    const Survey found = survey(TraceReader(file.path));
    REQUIRE(found.objects.size() == first_site + 3);
    const SurveyedObject& one = found.objects[first_site];
    CHECK(one.births == 2);
    CHECK(one.peak_bytes == 200);
    CHECK(one.lines_fetched == 2);
    CHECK(one.lines_stored == 1);
    const SurveyedObject& two = found.objects[first_site + 1];
    CHECK(two.lines_fetched == 2);
    CHECK(two.lines_stored == 1);
    CHECK(found.objects[first_site + 2].lines_fetched == 1);
    CHECK(found.objects[mapping].lines_fetched == 1);
    CHECK(found.lines_fetched == 6);
}

TEST_CASE("survey: a page is its region's until a block in it is touched") {
    const TemporaryFile file;
    const auto line = [&](std::uint64_t time, std::uint64_t page, std::uint64_t i) {
        return Stamped{time, {EventKind::write, page * 64 + i, 0, 0}};
    };
    const std::uint64_t block = 5000 * 4096 + 128;
    write(file.path, {{line(0, 5000, 0),  // long before
                       {stamp_grain, {EventKind::birth, block, 3 * 4096, 1}},
                       line(stamp_grain, 5000, 2),
                       line(stamp_grain, 5001, 0),
                       line(stamp_grain, 5003, 63),  // behind the block
                       line(stamp_grain, 6000, 0)}});
    const Survey found = survey(TraceReader(file.path));
    CHECK(found.objects[mapping].peak_bytes == 4096);
    CHECK(found.objects[first_site].peak_bytes == 3 * 4096);
}

TEST_CASE("survey: large blocks by address, those that shared memory as one") {
    constexpr std::uint64_t mebibyte = 1u << 20, page = 4096;
    const TemporaryFile file;
    const auto birth = [](std::uint64_t address, std::uint64_t bytes) {
        return Stamped{0, {EventKind::birth, address, bytes, 1}};
    };
    write(file.path, {{birth(900 * mebibyte + 16, mebibyte - 1),  // too small
                       birth(800 * mebibyte + 16, 3 * mebibyte),
                       birth(700 * mebibyte, mebibyte),
                       {0, {EventKind::death, 800 * mebibyte + 16, 0, 0}},
                       birth(802 * mebibyte, 4 * mebibyte),     // over the end of the one that died
                       birth(701 * mebibyte, 2 * mebibyte)}});  // beside another
    TraceReader reader(file.path);
    reader.set_variables({{mebibyte + 64, mebibyte}, {4 * mebibyte, mebibyte - 1}});
    std::vector<std::uint64_t> found;
    for (const auto& [first, count] : survey(reader).large_blocks) {
        found.push_back(first * page / mebibyte);
        found.push_back(count);
    }
    CHECK(found ==
          std::vector<std::uint64_t>{1, 257, 700, 256, 701, 512, 800, 6 * mebibyte / page});
}

TEST_CASE("survey: what was mapped ends where it is unmapped") {
    constexpr std::uint64_t page = 4096;
    const auto peak = [&](const Thread& thread) {
        const TemporaryFile file;
        write(file.path, {thread});
        return survey(TraceReader(file.path)).objects[first_site].peak_bytes / page;
    };
    const auto mapped = [&](std::uint64_t at, std::uint64_t count) {
        return Stamped{0, {EventKind::birth, at * page, count * page, 1}};
    };
    const auto gone = [](EventKind kind, std::uint64_t at, std::uint64_t count,
                         std::uint64_t to = 0) { return Stamped{0, {kind, at, count, to}}; };
    using enum EventKind;
    // Temporaries, at one place or others; given back by themselves or with what lies around them.
    CHECK(peak({mapped(5000, 8), gone(unmap, 5000, 8), mapped(5000, 8)}) == 8);
    CHECK(peak({mapped(5000, 8), gone(unmap, 5000, 8), mapped(6000, 8)}) == 8);
    CHECK(peak({mapped(5000, 8), mapped(5008, 8), gone(unmap, 4000, 2000), mapped(9000, 8)}) == 16);
    // A part of them: at its end, its beginning, in the middle; and beside it.
    CHECK(peak({mapped(5000, 8), gone(unmap, 5006, 4), mapped(6000, 8)}) == 14);
    CHECK(peak({mapped(5000, 8), gone(unmap, 4996, 6), mapped(6000, 8)}) == 14);
    CHECK(peak({mapped(5000, 8), gone(unmap, 5003, 2), mapped(6000, 8)}) == 14);
    CHECK(peak({mapped(5000, 8), gone(unmap, 5003, 2), gone(unmap, 5000, 8), mapped(6000, 8)}) ==
          8);
    CHECK(peak({mapped(5000, 8), gone(unmap, 5008, 4), gone(unmap, 4996, 4), mapped(6000, 8)}) ==
          16);
    // The allocator tells of the end of its blocks.
    const Stamped freed{0, {death, 5000 * page, 0, 0}};
    CHECK(peak({mapped(5000, 8), freed, mapped(6000, 8)}) == 8);
    // The frames alone go; the mapping moves, and has a birth at its new place.
    CHECK(peak({mapped(5000, 8), gone(discard, 5000, 8), mapped(6000, 8)}) == 16);
    CHECK(peak({mapped(5000, 8), gone(remap, 5000, 8, 7000), mapped(7000, 8)}) == 8);
    CHECK(peak({mapped(5000, 8), mapped(7000, 8), gone(remap, 5000, 8, 7000), mapped(9000, 8)}) ==
          16);
}

TEST_CASE("survey: the footprint is the most pages written at one time") {
    const TemporaryFile file;
    Thread thread;
    for (int step = 0; step < 3; ++step) {  // a temporary of ten pages in each step
        for (std::uint64_t page = 0; page < 10; ++page)
            thread.push_back({0, {EventKind::page_write, 7000 + page, 1, 0}});
        thread.push_back({0, {EventKind::page_read, 9000, 1, 0}});  // no frame of its own
        thread.push_back({0, {EventKind::unmap, 7000, 10, 0}});
    }
    write(file.path, {thread, {{0, {EventKind::page_write, 7000, 1, 0}}}});
    const Survey found = survey(TraceReader(file.path));
    CHECK(found.peak_pages == 10);
    REQUIRE(found.first_writes.size() >= 3);
    CHECK(found.first_writes[0].first == 7000);
    CHECK(found.first_writes[0].count == 10);
}

TEST_CASE("compile: intervals cut the run and change nothing else") {
    std::mt19937_64 random(8);
    for (int round = 0; round < 20; ++round) {
        std::vector<Thread> threads;
        for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
            threads.push_back(random_thread(random, 1500));
        const TemporaryFile file;
        write(file.path, threads);
        const TraceReader reader(file.path);
        const CompileOptions whole{{{{64, 4}, 1}}, 12};
        CompileOptions cut = whole;
        cut.interval_instructions = (1 + random() % 200) * 10 * stamp_grain;
        const auto phases = compile(reader, whole), intervals = compile(reader, cut);
        const auto without_phases = [](const Program& program) {
            std::vector<Step> steps = expand(program);
            std::erase_if(steps, [](const Step& s) { return std::get<0>(s) == OpKind::phase; });
            return by_index(steps);
        };
        CHECK(without_phases(*intervals) == without_phases(*phases));
        CHECK(intervals->phases() == intervals->interval_phases().size());
        const auto of_phase = phases->instructions(), of_interval = intervals->instructions();
        CHECK(std::accumulate(of_phase.begin(), of_phase.end(), std::uint64_t{0}) ==
              std::accumulate(of_interval.begin(), of_interval.end(), std::uint64_t{0}));
        const unsigned count = intervals->threads();
        for (unsigned i = 0; i + 1 < intervals->phases(); ++i) {
            const auto own = of_interval.subspan(i * count, count);
            const std::uint64_t executed =
                std::accumulate(own.begin(), own.end(), std::uint64_t{0});
            CHECK(executed >= cut.interval_instructions / 8);
            CHECK(executed <= cut.interval_instructions + 100 * stamp_grain);  // one batch more
        }
        // Ops of phases count the intervals, and the marked phases are met in their order.
        std::vector<std::uint64_t> begun;
        for (const Step& step : expand(*intervals))
            if (std::get<0>(step) == OpKind::phase) begun.push_back(std::get<1>(step));
        std::vector<std::uint64_t> ascending(intervals->phases() - 1);
        std::iota(ascending.begin(), ascending.end(), 1u);
        CHECK(begun == ascending);
        CHECK(phases->interval_phases().empty());
    }
}

// With touches as filters give them: of lines fetched a while ago, which blocks may have taken
// since, each right before a fetch of another line of its set.
Thread with_touches(std::mt19937_64& random, const Thread& thread) {
    Thread result;
    std::vector<std::uint64_t> fetched;
    for (const Stamped& item : thread) {
        result.push_back(item);
        if (item.event.kind <= EventKind::write) fetched.push_back(item.event.address);
        if (fetched.empty() || random() % 2 == 0) continue;
        const std::size_t back = random() % std::min<std::size_t>(fetched.size(), 100);
        const std::uint64_t line = fetched[fetched.size() - 1 - back];
        const std::uint64_t other = (first_page + random() % pages) * 64 + line % 64;
        result.push_back({item.instructions, {EventKind::touch, line, 0, 0}});
        result.push_back({item.instructions, {EventKind::read, other, 0, 0}});
        fetched.push_back(other);
    }
    return result;
}

TEST_CASE("survey and compile: both are what they are alone") {
    std::mt19937_64 random(10);
    for (int round = 0; round < 20; ++round) {
        std::vector<Thread> threads;
        for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
            threads.push_back(with_touches(random, random_thread(random, 1500)));
        const TemporaryFile file;
        write(file.path, threads);
        TraceReader reader(file.path);
        reader.set_variables({{first_page * page_bytes, 3 * page_bytes}});
        CompileOptions options{{{{64, 4}, 1}}, 12};
        options.interval_instructions = 20 * stamp_grain;
        if (round % 4 != 0) options.sample = {random() | 1, 8};
        const auto alone = survey(reader, {}, 7 * stamp_grain);
        const auto program = compile(reader, options);
        const auto both = survey_and_compile(reader, 7 * stamp_grain, options);
        CHECK(expand(*both.program) == expand(*program));
        CHECK(both.program->sampled().seen == program->sampled().seen);
        CHECK(both.program->sampled().kept == program->sampled().kept);
        CHECK(both.program->sampled().touched == program->sampled().touched);
        CHECK(both.survey.live.bytes() == alone.live.bytes());
        CHECK(both.survey.instructions == alone.instructions);
        CHECK(both.survey.peak_pages == alone.peak_pages);
        CHECK(both.survey.line_events == alone.line_events);
        CHECK(both.survey.lines_fetched == alone.lines_fetched);
        CHECK(both.survey.lines_stored == alone.lines_stored);
        REQUIRE(both.survey.objects.size() == alone.objects.size());
        for (std::size_t i = 0; i < alone.objects.size(); ++i) {
            CHECK(both.survey.objects[i].births == alone.objects[i].births);
            CHECK(both.survey.objects[i].peak_bytes == alone.objects[i].peak_bytes);
            CHECK(both.survey.objects[i].lines_fetched == alone.objects[i].lines_fetched);
            CHECK(both.survey.objects[i].lines_stored == alone.objects[i].lines_stored);
        }
        REQUIRE(both.survey.first_writes.size() == alone.first_writes.size());
        for (std::size_t i = 0; i < alone.first_writes.size(); ++i)
            CHECK(both.survey.first_writes[i].first == alone.first_writes[i].first);
    }
}

TEST_CASE("survey and compile: blocks have the same lines whatever touches are left out") {
    // A block claims lines right before its birth, as far as they come with it: more events than
    // are decoded at a time, and births within them.
    std::mt19937_64 random(11);
    Thread thread;
    for (std::uint64_t i = 0; i < 60000; ++i) {
        const std::uint64_t instructions = i / 20000 * stamp_grain;
        const std::uint64_t line = first_page * 64 + random() % (40 * 64);
        thread.push_back({instructions, {EventKind::read, line, 0, 0}});
        if (random() % 20 == 0)
            thread.push_back(
                {instructions, {EventKind::birth, line * 64, 64 + random() % 200, 1 + i % 3}});
    }
    const TemporaryFile file;
    write(file.path, {with_touches(random, thread)});
    const TraceReader reader(file.path);
    CompileOptions options{{{{64, 4}, 1}}, 12};
    options.interval_instructions = stamp_grain;
    options.sample = {0x0404040404040404, 8};
    const Survey alone = survey(reader);
    const auto both = survey_and_compile(reader, 0, options);
    const auto& seen = both.program->sampled().seen;
    for (std::size_t object = 0; object < alone.objects.size(); ++object) {
        CHECK(both.survey.objects[object].lines_fetched == alone.objects[object].lines_fetched);
        std::uint64_t counted = 0;
        for (std::size_t at = object; at < seen.size(); at += alone.objects.size())
            counted += seen[at];
        CHECK(counted == alone.objects[object].lines_fetched);
    }
}

TEST_CASE("compile: a marked phase begins an interval") {
    const auto line = [](std::uint64_t instructions) {
        return Stamped{instructions, {EventKind::read, first_page * 64, 0, 0}};
    };
    const auto mark = [](std::uint64_t instructions, std::uint64_t phase) {
        return Stamped{instructions, {EventKind::phase, 0, instructions, phase}};
    };
    constexpr std::uint64_t grain = stamp_grain;
    const TemporaryFile file;
    // Eight grains an interval: the first phase comes after three, the second at once after it.
    write(file.path, {{line(0), mark(3 * grain, 1), line(3 * grain), mark(12 * grain, 2),
                       line(12 * grain), line(13 * grain)}});
    const auto program =
        compile(TraceReader(file.path), {{}, 12, LineOrder::by_set, {}, 8 * grain});
    CHECK(program->interval_phases() == std::vector<unsigned>{0, 1, 2});
}

TEST_CASE("survey: live bytes of moments reach each object's peak") {
    std::mt19937_64 random(9);
    for (int round = 0; round < 20; ++round) {
        const TemporaryFile file;
        write(file.path, {random_thread(random, 2000), random_thread(random, 1000)});
        const TraceReader reader(file.path);
        const Survey whole = survey(reader);
        CHECK(whole.live.moments() == 0);
        const Survey found = survey(reader, {}, (1 + random() % 100) * 10 * stamp_grain);
        const std::size_t objects = found.objects.size();
        const std::vector<std::uint64_t> live = found.live.bytes();
        REQUIRE(live.size() == found.live.moments() * objects);
        for (std::size_t object = 0; object < objects; ++object) {
            std::uint64_t most = 0;
            for (std::size_t i = object; i < live.size(); i += objects)
                most = std::max(most, live[i]);
            CHECK(most == whole.objects[object].peak_bytes);
        }
    }
}

TEST_CASE("survey: temporaries that come one after the other are live at different moments") {
    constexpr std::uint64_t page = 4096, grain = stamp_grain;
    const TemporaryFile file;
    write(file.path, {{{0, {EventKind::birth, 5000 * page, 8 * page, 1}},
                       {grain, {EventKind::death, 5000 * page, 0, 0}},
                       {2 * grain, {EventKind::read, first_page * 64, 0, 0}},
                       {2 * grain, {EventKind::birth, 6000 * page, 4 * page, 2}},
                       {3 * grain, {EventKind::read, first_page * 64 + 1, 0, 0}}}});
    const Survey found = survey(TraceReader(file.path), {}, grain);
    const std::size_t objects = found.objects.size();
    const std::vector<std::uint64_t> all = found.live.bytes();
    bool first = false, second = false;
    for (std::size_t i = 0; i < found.live.moments(); ++i) {
        const std::uint64_t* live = &all[i * objects];
        first |= live[first_site] == 8 * page;
        second |= live[first_site + 1] == 4 * page;
        CHECK((live[first_site] == 0 || live[first_site + 1] == 0));
    }
    CHECK(first);
    CHECK(second);
}

TEST_CASE("live course: the changes are those of a table of all moments") {
    std::mt19937_64 random(10);
    for (int round = 0; round < 50; ++round) {
        const auto objects = static_cast<std::uint32_t>(1 + random() % 5);
        LiveCourse course(objects);
        std::vector<std::uint64_t> live(objects), most(objects), table;
        for (int step = 0; step < 200; ++step) {
            const auto object = static_cast<std::uint32_t>(random() % objects);
            const std::uint64_t bytes = random() % 100;
            if (random() % 3 == 0) {
                course.end_moment();
                table.insert(table.end(), most.begin(), most.end());
                most = live;
            } else if (live[object] >= bytes && random() % 2 == 0) {
                course.shrink(object, bytes);
                live[object] -= bytes;
            } else {
                CHECK(course.grow(object, bytes) == (live[object] += bytes));
                most[object] = std::max(most[object], live[object]);
            }
        }
        CHECK(course.bytes() == table);
    }
}
