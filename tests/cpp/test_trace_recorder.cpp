// The recorder writes the same file whatever the batches are, and none if it is not closed.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_recorder.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t accesses = 30'000;  // many times a thread's records

struct Drawn {
    std::vector<std::uint64_t> addresses;
    std::vector<std::uint32_t> sizes, instructions;
    std::unique_ptr<bool[]> stores = std::make_unique<bool[]>(accesses);

    explicit Drawn(std::mt19937_64& random) {
        for (std::size_t i = 0; i < accesses; ++i) {
            addresses.push_back(0x100000 + random() % 64 * page_bytes * 8 + random() % 300);
            sizes.push_back(1 + static_cast<std::uint32_t>(random() % (i % 100 == 0 ? 5000 : 16)));
            instructions.push_back(static_cast<std::uint32_t>(random() % 50));
            stores[i] = random() % 3 == 0;
        }
    }

    [[nodiscard]] AccessBatch part(std::size_t begin, std::size_t count) const {
        return {std::span(addresses).subspan(begin, count), std::span(sizes).subspan(begin, count),
                std::span(stores.get() + begin, count),
                std::span(instructions).subspan(begin, count)};
    }
};

// The bytes of a file of two threads, of blocks, phases and pages given back, in such batches.
std::string recorded(const Drawn& drawn, std::size_t batch) {
    const TemporaryFile file;
    TraceRecorder recorder(file.path, {"test", "app", {"-x"}});
    recorder.allocate(0, 0x100000, 1 << 20, "block");
    for (const std::uint32_t thread : {0u, 1u}) {
        for (std::size_t begin = 0; begin < accesses; begin += batch) {
            if (begin % 10'000 == 0) {
                recorder.phase(thread, begin % 20'000 == 0 ? "even" : "");
                recorder.unmap(thread, 0x100000 + begin, 40 * page_bytes);
                recorder.sync(thread);
            }
            recorder.access(thread, drawn.part(begin, batch));
        }
    }
    recorder.free(1, 0x100000);
    recorder.close();
    const TraceReader reader(file.path);
    CHECK(!reader.damage());
    CHECK(reader.summary()->accesses == 2 * accesses);
    CHECK(reader.threads().size() == 2);
    CHECK(reader.call_sites()[0].name == "block");
    std::ifstream bytes(file.path, std::ios::binary);
    return {std::istreambuf_iterator<char>(bytes), {}};
}

}  // namespace

TEST_CASE("recorder: batches of any size make the same file") {
    std::mt19937_64 random(1);
    const Drawn drawn(random);
    const std::string one_by_one = recorded(drawn, 1);
    CHECK(recorded(drawn, 10) == one_by_one);
    CHECK(recorded(drawn, 10'000) == one_by_one);
}

TEST_CASE("recorder: what cannot be recorded, and a file that is not closed") {
    const TemporaryFile file;
    const std::string partial = file.path + ".partial";
    {
        TraceRecorder recorder(file.path, {"test", "app", {}});
        const std::uint64_t address = std::uint64_t{1} << 57;
        const std::uint32_t size = 0, one = 1;
        const bool store = false;
        CHECK_THROWS_AS(recorder.access(0, {{&address, 1}, {&one, 1}, {&store, 1}, {&one, 1}}),
                        std::invalid_argument);
        CHECK_THROWS_AS(recorder.access(0, {{&address, 1}, {&size, 1}, {&store, 1}, {&one, 1}}),
                        std::invalid_argument);
        CHECK_THROWS_AS(recorder.execute(4096, 1), std::invalid_argument);
        CHECK(std::filesystem::exists(partial));
    }
    CHECK(!std::filesystem::exists(partial));
    CHECK_THROWS_AS(TraceRecorder("/no-such-folder/app.trace", {}), TraceError);
}
