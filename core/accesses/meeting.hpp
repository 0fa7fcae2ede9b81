// How some processes of a job wait for each other: what an event `wait` and an op `meet` say beside
// a number of processes.
//
// Processes come to a *place*, one turn after the other, and wait there for others to have come. A
// communicator of MPI is a place for its collective calls. So is each sequence of messages with one
// sender, receiver and tag: both come, and the receiver waits. The sender may wait, too.
#pragma once

#include <cstdint>

namespace pagelens {

struct Meeting {
    bool comes = false;       // this process does one more turn
    bool waits = false;       // until all others that ever come here have done this turn
    std::uint32_t place = 0;  // a number of the trace or of the job
    std::uint32_t turn = 0;   // how many were before it, below 2^28
    bool sends = false;       // a sender waits; for which messages it does is partly assumed
    friend bool operator==(const Meeting&, const Meeting&) = default;
};

inline constexpr std::uint32_t turns_limit = 1u << 28;

// All processes of a job meet: how many they are, and how many such meetings this one had before.
constexpr std::uint64_t packed_of_all(std::uint32_t processes, std::uint64_t before) {
    return (before & (turns_limit - 1)) << 32 | processes;
}
constexpr std::uint32_t processes_of(std::uint64_t meeting) {
    return static_cast<std::uint32_t>(meeting);
}

// A number that no meeting of all processes has.
constexpr std::uint64_t packed(const Meeting& meeting) {
    return std::uint64_t{1} << 63 | std::uint64_t{meeting.waits} << 62 |
           std::uint64_t{meeting.comes} << 61 | std::uint64_t{meeting.sends} << 60 |
           std::uint64_t{meeting.turn & (turns_limit - 1)} << 32 | meeting.place;
}

constexpr bool is_of_some(std::uint64_t meeting) { return meeting >> 63 != 0; }

constexpr Meeting unpacked(std::uint64_t meeting) {
    return {(meeting >> 61 & 1) != 0, (meeting >> 62 & 1) != 0, static_cast<std::uint32_t>(meeting),
            static_cast<std::uint32_t>(meeting >> 32) & (turns_limit - 1),
            (meeting >> 60 & 1) != 0};
}

}  // namespace pagelens
