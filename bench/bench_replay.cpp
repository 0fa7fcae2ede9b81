// The memory-side cache beside a bare loop of the same shape, and whole replays of one placement.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/accesses/sweeps.hpp"
#include "core/frames/history.hpp"
#include "core/machine/memory_side.hpp"
#include "core/replay/replay.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t slots = 16u << 18;        // 16 GiB of 4 KiB pages
constexpr std::uint32_t node_frames = 96u << 18;  // 96 GiB
constexpr std::uint32_t array_pages = 16u << 8;   // 16 MiB
constexpr std::uint32_t table_pages = 1u << 18;   // 1 GiB
constexpr unsigned rounds = 8;

// Seconds of this thread's processor time: what else runs on the machine counts less.
double seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The best rate of each of several works, taken in turn so that all see the same machine.
std::vector<double> best_rates(double units, const std::vector<std::function<void()>>& works) {
    std::vector<double> best(works.size());
    for (unsigned round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < works.size(); ++i) {
            const double start = seconds();
            works[i]();
            best[i] = std::max(best[i], units / (seconds() - start));
        }
    }
    return best;
}

void report(const char* name, double value, const char* unit, const std::string& required,
            const std::string& note) {
    std::printf("{\"name\": \"replay: %s\", \"value\": %.3g, \"unit\": \"%s\"", name, value, unit);
    if (!required.empty()) std::printf(", \"required\": \"%s\"", required.c_str());
    std::printf(", \"note\": \"%s\"}\n", note.c_str());
}

// 4 KiB pages on distinct random frames.
std::vector<std::uint32_t> random_frames(std::uint32_t pages) {
    std::vector<std::uint32_t> frames(node_frames);
    std::iota(frames.begin(), frames.end(), 0u);
    Random random(1, 0, 0, Stream::random_frames);
    for (std::uint32_t i = 0; i < pages; ++i) {
        std::swap(frames[i], frames[i + random.below(node_frames - i)]);
    }
    frames.resize(pages);
    return frames;
}

// The yardstick: a byte a line, looked up and replaced; nothing but that.
class BareTags {
  public:
    explicit BareTags(std::uint8_t* tags) : tags_(tags) {}
    void access(std::uint64_t line, bool write) {
        std::uint8_t* tag = tags_ + (line & mask);
        const auto wanted = static_cast<std::uint8_t>((line >> bits) + 1);
        const std::uint8_t old = *tag;
        const bool hit = (old & 0x7f) == wanted;
        hits += hit;
        write_backs += static_cast<unsigned>(!hit) & old >> 7;
        *tag = static_cast<std::uint8_t>(wanted | (write ? 0x80 : 0) | (hit ? old & 0x80 : 0));
    }
    void prefetch(std::uint64_t line) const { __builtin_prefetch(tags_ + (line & mask), 1); }
    std::uint64_t hits = 0, write_backs = 0;

  private:
    static constexpr unsigned bits = 28;
    static constexpr std::uint64_t mask = (1ull << bits) - 1;
    std::uint8_t* tags_;
};

// a[i] read, b[i] written, in turn, `sweeps` times; lines of pages on `frames`.
template <class Lines>
void copy(Lines lines, const std::vector<std::uint32_t>& frames, int sweeps, Lines* result) {
    const auto line_of = [&](std::uint64_t line) {
        return std::uint64_t{frames[line >> 6]} << 6 | (line & 63);
    };
    constexpr std::uint64_t count = std::uint64_t{array_pages} * 64;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        for (std::uint64_t line = 0; line < count; ++line) {
            if ((line & 63) == 0 && line + 64 < count) {
                lines.prefetch(line_of(line + 64));
                lines.prefetch(line_of(count + line + 64));
            }
            lines.access(line_of(line), false);
            lines.access(line_of(count + line), true);
        }
    }
    *result = lines;
}

// Reads of uniformly random lines, looked up in batches so that their bytes are on the way.
template <class Lines>
void scatter(Lines lines, const std::vector<std::uint32_t>& frames, std::uint64_t count,
             Lines* result) {
    constexpr unsigned batch = 64;
    std::uint64_t state = 88172645463325252ull, ahead[batch];
    for (std::uint64_t done = 0; done < count; done += batch) {
        for (std::uint64_t& line : ahead) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            const std::uint64_t at = state >> 20;
            line = std::uint64_t{frames[at >> 6 & (table_pages - 1)]} << 6 | (at & 63);
            lines.prefetch(line);
        }
        for (const std::uint64_t line : ahead) lines.access(line, false);
    }
    *result = lines;
}

void line_by_line() {
    const auto frames = random_frames(table_pages);
    constexpr int sweeps = 25;
    constexpr double copied = 2.0 * array_pages * 64 * sweeps;
    constexpr std::uint64_t scattered = 1u << 24;
    MemorySideCache single(slots, 1), paged(slots, 1);
    HugeArray tags(std::size_t{slots} * 64);
    DirectMappedLines lines(single);
    BareTags bare(tags.data());
    CacheCounts runs;
    constexpr std::uint32_t ahead = 4;  // pages
    const auto copy_runs = [&] {
        runs = {};
        for (int sweep = 0; sweep < sweeps; ++sweep) {
            for (std::uint32_t page = 0; page < array_pages; ++page) {
                const std::uint32_t from = frames[page], to = frames[array_pages + page];
                paged.prefetch(frames[page + ahead] & (slots - 1));
                paged.prefetch(frames[array_pages + page + ahead] & (slots - 1));
                runs.add(~0ull, paged.access(from & (slots - 1), from / slots, ~0ull, false));
                runs.add(~0ull, paged.access(to & (slots - 1), to / slots, ~0ull, true));
            }
        }
    };
    const auto copies = best_rates(
        copied, {[&] { copy(DirectMappedLines(single), frames, sweeps, &lines); },
                 [&] { copy(BareTags(tags.data()), frames, sweeps, &bare); }, copy_runs});
    if (!(runs == lines.counts())) {
        std::fprintf(stderr, "page runs and lines count differently\n");
        std::exit(1);
    }
    const auto scatters = best_rates(
        scattered, {[&] { scatter(DirectMappedLines(single), frames, scattered, &lines); },
                    [&] { scatter(BareTags(tags.data()), frames, scattered, &bare); }});
    if (bare.hits + lines.counts().misses != lines.counts().accesses) {
        std::fprintf(stderr, "the bare loop counts differently\n");
        std::exit(1);
    }

    const auto beside = [](double rate) {
        return "bare loop " + std::to_string(std::lround(rate / 1e6));
    };
    report("copy of two 16 MiB arrays, line by line", copies[0] / 1e6, "M lines/s", ">= 350",
           beside(copies[1]));
    report("random lines over 1 GiB", scatters[0] / 1e6, "M lines/s", ">= 90", beside(scatters[1]));
    report("copy as page runs", copies[2] / 1e6, "M lines/s", "", "equal counts");
    report("page runs over line by line", copies[2] / copies[0], "x", ">= 20", "copy");
}

}  // namespace

int main() { line_by_line(); }
