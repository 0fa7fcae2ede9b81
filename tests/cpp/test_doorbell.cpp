// The doorbell instruction as the compiler emits it: recognised, harmless, and its record whole.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tracer/doorbell.hpp"

using pagelens::is_doorbell;
using pagelens::read_record;

namespace {

__attribute__((noinline)) void ring_once() {
    pagelens_record record = {PAGELENS_BIRTH, 0x1234, 64};
    pagelens_ring(&record);
}

}  // namespace

TEST_CASE("doorbell: the compiled instruction is found, once") {
    const auto* code = reinterpret_cast<const std::uint8_t*>(&ring_once);
    int found = 0;  // within reach of the start: the sanitizers put code of their own before it
    for (int at = 0; at < 1024; ++at) {
        found += is_doorbell(code + at, 7);
        if (code[at] == 0xc3 && found != 0) break;
    }
    CHECK(found == 1);
}

TEST_CASE("doorbell: every byte of the instruction counts") {
    std::uint8_t bytes[] = {0x48, 0x89, 0x81, 0x31, 0x5a, 0x8d, 0x6b};
    CHECK(is_doorbell(bytes, 7));
    CHECK(!is_doorbell(bytes, 6));
    for (std::uint8_t& byte : bytes) {
        byte ^= 1;
        CHECK(!is_doorbell(bytes, 7));
        byte ^= 1;
    }
}

TEST_CASE("doorbell: ringing leaves the record as it was") {
    pagelens_record record = {PAGELENS_DEATH, 0xfeed, 0};
    pagelens_ring(&record);
    CHECK(record.kind == PAGELENS_DEATH);
    CHECK(record.address == 0xfeed);
    CHECK(record.size == 0);
}

TEST_CASE("doorbell: a record is read at its guest address, and its region's name is bounded") {
    const std::string name(1000, 'x');
    const std::uint64_t guest_base = 0x100;
    const auto guest = [&](const void* host) {
        return reinterpret_cast<std::uint64_t>(host) - guest_base;
    };
    const pagelens_record sent = {PAGELENS_REGION_BEGIN, guest(name.data()), name.size()};
    const pagelens_record got = read_record(guest_base, guest(&sent));
    CHECK(got.kind == PAGELENS_REGION_BEGIN);
    CHECK(pagelens::region_name(guest_base, got) == std::string(pagelens::max_region_name, 'x'));
}

TEST_CASE("a meeting is read from the record that announces it") {
    const pagelens_meeting told = {7, 1, 0, 1, "place"};
    const auto record = [&](std::uint64_t bytes) {
        return pagelens_record{PAGELENS_MEETING, reinterpret_cast<std::uint64_t>(&told), bytes};
    };
    const std::size_t before = offsetof(pagelens_meeting, place);
    const pagelens::ToldMeeting got = pagelens::told_meeting(0, record(before + 5));
    CHECK(got.turn == 7);
    CHECK(got.comes);
    CHECK_FALSE(got.waits);
    CHECK(got.sends);
    CHECK(got.place == "place");
    CHECK(pagelens::told_meeting(0, record(before)).place.empty());
    CHECK(pagelens::told_meeting(0, record(1u << 30)).place.size() == sizeof told.place);
}
