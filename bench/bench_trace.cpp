// The trace file's own speed: encoding and decoding line events, and what they take in the file.
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>

#include "core/accesses/compile.hpp"
#include "core/accesses/survey.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_writer.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t lines = 8'000'000;

// Of this process: others on the machine count less.
double seconds(const std::function<void()>& work) {
    const std::clock_t start = std::clock();
    work();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// What leaves a 32 KiB filter under y = A x with 27-point rows in compressed storage (HPCCG's
// matrix): values and column numbers in order, x gathered from nine rows of neighbours.
std::vector<Event> sparse_product() {
    constexpr std::uint64_t n = 64;  // cells a side
    const std::uint64_t values = 1u << 20, columns = 1u << 24, x = 1u << 26, y = 1u << 27;
    std::vector<Event> events;
    while (events.size() < lines) {
        for (std::uint64_t cell = 0; cell < n * n * n && events.size() < lines; cell += 8) {
            for (std::uint64_t i = 0; i < 8; ++i) {  // 27 values of 8 bytes, 27 columns of 4
                const std::uint64_t row = cell + i;
                for (std::uint64_t at = row * 27 / 8; at < (row + 1) * 27 / 8; ++at)
                    events.push_back({EventKind::read, values + at, 0, 0});
                for (std::uint64_t at = row * 27 / 16; at < (row + 1) * 27 / 16; ++at)
                    events.push_back({EventKind::read, columns + at, 0, 0});
            }
            for (const std::uint64_t plane : {n * n, 2 * n * n, 3 * n * n})
                events.push_back({EventKind::read, x + (cell + plane + n) / 8, 0, 0});
            events.push_back({EventKind::write, y + cell / 8, 0, 0});
        }
    }
    return events;
}

// The stream above with one line in five at random within 64 MiB: indirect accesses.
std::vector<Event> with_gathers(std::vector<Event> events) {
    std::mt19937_64 random(1);
    for (Event& event : events)
        if (random() % 5 == 0) event = {EventKind::read, (1u << 28) + random() % (1u << 20), 0, 0};
    return events;
}

void measure(const char* name, const std::vector<Event>& events, const char* required_bytes) {
    const std::string path = std::string("/tmp/pagelens-bench-") + std::to_string(events.size());
    std::uint64_t bytes = 0;
    const double writing = seconds([&] {
        TraceWriter writer(path, {});
        ThreadEncoder& encoder = writer.thread(0);
        for (std::size_t i = 0; i < events.size(); i += 1000)
            encoder.put(
                std::span(events).subspan(i, std::min<std::size_t>(1000, events.size() - i)));
        writer.finish({});
        bytes = writer.bytes_written();
    });
    std::uint64_t sum = 0;
    const double reading = seconds([&] {
        const TraceReader reader(path);
        ThreadStream stream = reader.stream(0);
        while (const auto batch = stream.next())
            for (const Event& event : batch->events) sum += event.address;
    });
    std::uint64_t ops = 0;
    const double compiling = seconds([&] {
        const TraceReader reader(path);
        ops = compile(reader, {{{{64, 8}, 1}}, 12})->ops();
    });
    const double surveying = seconds([&] { sum += survey(TraceReader(path)).lines_fetched; });
    std::remove(path.c_str());
    const double count = static_cast<double>(events.size());
    std::printf(R"({"name": "trace file, %s: encode", "value": %.2f, "unit": "ns/line"})"
                "\n",
                name, writing / count * 1e9);
    std::printf(R"({"name": "trace file, %s: decode", "value": %.1f, "unit": "M lines/s"%s})"
                "\n",
                name, count / reading / 1e6, sum == 0 ? R"(, "note": "empty")" : "");
    std::printf(
        R"({"name": "trace file, %s: compile, with L1", "value": %.1f, "unit": "M lines/s",)"
        R"( "note": "%.1f lines an op"})"
        "\n",
        name, count / compiling / 1e6, count / static_cast<double>(ops));
    std::printf(R"({"name": "trace file, %s: survey", "value": %.1f, "unit": "M lines/s"})"
                "\n",
                name, count / surveying / 1e6);
    std::printf(R"({"name": "trace file, %s: size", "value": %.3f, "unit": "bytes/line"%s})"
                "\n",
                name, static_cast<double>(bytes) / count, required_bytes);
}

}  // namespace

int main() {
    const std::vector<Event> events = sparse_product();
    measure("27-point sparse product", events, R"(, "required": "<= 0.4")");
    measure("the same with 20% random lines", with_gathers(events), "");
}
