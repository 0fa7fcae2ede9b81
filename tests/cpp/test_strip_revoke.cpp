// Strip::revoke: another thread gave pages back, so their lines are no longer hidden; others are.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/accesses/strip.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t gone = 0x1000, kept = 0x2001;  // pages

std::uint64_t line_in(std::uint64_t page, std::uint64_t line) {
    return page * page_bytes + line * line_bytes;
}

void use(Strip& strip, std::uint64_t address) {
    std::array<Record, Strip::records_per_pass> records;
    strip.advance(1);
    if (!strip.hides(address, true, 0, 0)) strip.pass(address, true, 0, records.data());
}

bool hides(Strip& strip, std::uint64_t address) { return strip.hides(address, true, 0, 0); }

}  // namespace

TEST_CASE("revoked pages pass, also where their line is the second of its set") {
    const auto strip = std::make_unique<Strip>();
    use(*strip, line_in(gone, 3));
    use(*strip, line_in(gone, 7));
    use(*strip, line_in(kept, 7));  // the first of that set now
    use(*strip, line_in(kept, 9));
    CHECK(hides(*strip, line_in(gone, 3)));
    strip->revoke(gone, 1);
    CHECK(!hides(*strip, line_in(gone, 3)));
    CHECK(!hides(*strip, line_in(gone, 7)));
    CHECK(hides(*strip, line_in(kept, 9)));
}

TEST_CASE("a thread that goes on using other sets sees each revocation at its next access") {
    const auto strip = std::make_unique<Strip>();
    std::atomic<int> turn{0};
    int hidden = 0;
    constexpr int rounds = 200;
    std::thread owner([&] {
        for (int round = 0; round < rounds; ++round) {
            while (turn < 2 * round + 1) use(*strip, line_in(kept, 9));
            if (round > 0 && hides(*strip, line_in(gone, 3))) ++hidden;
            std::array<Record, Strip::records_per_forget> records;
            strip->forget(gone, 1, records.data());
            use(*strip, line_in(gone, 3));
            turn = 2 * round + 2;
        }
    });
    for (int round = 0; round < rounds; ++round) {
        strip->revoke(gone, 1);
        turn = 2 * round + 1;
        while (turn < 2 * round + 2) std::this_thread::yield();
    }
    owner.join();
    CHECK(hidden == 0);
}
