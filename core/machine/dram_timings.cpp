#include "core/machine/dram_timings.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagelens {

void DramTimings::check() const {
    const std::pair<const char*, Picoseconds> all[] = {
        {"tCK", tCK},       {"burst", burst},
        {"CL", CL},         {"CWL", CWL},
        {"tRCD", tRCD},     {"tRP", tRP},
        {"tRAS", tRAS},     {"tRC", tRC},
        {"tRRD_S", tRRD_S}, {"tRRD_L", tRRD_L},
        {"tFAW", tFAW},     {"tCCD_S", tCCD_S},
        {"tCCD_L", tCCD_L}, {"tCCD_L_WR", tCCD_L_WR},
        {"tWTR_S", tWTR_S}, {"tWTR_L", tWTR_L},
        {"tRTW", tRTW},     {"tRTRS", tRTRS},
        {"tRTP", tRTP},     {"tWR", tWR},
        {"tREFI", tREFI},   {"tRFC", tRFC},
    };
    constexpr Picoseconds longest(1'000'000'000);  // a millisecond: sums stay far from overflow
    for (const auto& [name, time] : all) {
        if (time <= Picoseconds(0) || time > longest) {
            throw std::invalid_argument(std::string(name) + ": must be above 0 and at most 1 ms");
        }
    }
    const auto at_least = [](const char* name, Picoseconds longer, const char* other,
                             Picoseconds shorter) {
        if (longer < shorter) {
            throw std::invalid_argument(std::string(name) + ": shorter than " + other);
        }
    };
    at_least("tRAS", tRAS, "tRCD", tRCD);
    at_least("tRC", tRC, "tRAS", tRAS);
    at_least("tRRD_L", tRRD_L, "tRRD_S", tRRD_S);
    at_least("tCCD_L", tCCD_L, "tCCD_S", tCCD_S);
    at_least("tCCD_L_WR", tCCD_L_WR, "tCCD_S", tCCD_S);
    at_least("tWTR_L", tWTR_L, "tWTR_S", tWTR_S);
    // Room for the row that has to close first, and for some accesses between two refreshes.
    at_least("tREFI", tREFI, "the refresh, and the row cycle and access before it",
             tRFC + tRC + tRP + tRTP + CWL + burst + tWR);
}

CasToCas::CasToCas(const DramTimings& t) {
    const auto at_least_a_clock = [&t](Picoseconds time) { return std::max(time, t.tCK); };
    for (const bool write : {false, true}) {
        same_group[write][write] = std::max(write ? t.tCCD_L_WR : t.tCCD_L, t.burst);
        same_rank[write][write] = std::max(t.tCCD_S, t.burst);
        other_rank[write][write] = t.burst + t.tRTRS;
    }
    // A transfer ends before the next one begins, and the bus turns round between them.
    same_group[0][1] = same_rank[0][1] = at_least_a_clock(t.CL + t.burst + t.tRTW - t.CWL);
    other_rank[0][1] = at_least_a_clock(t.CL + t.burst + t.tRTRS - t.CWL);
    same_group[1][0] = t.CWL + t.burst + t.tWTR_L;
    same_rank[1][0] = t.CWL + t.burst + t.tWTR_S;
    other_rank[1][0] = at_least_a_clock(t.CWL + t.burst + t.tRTRS - t.CL);
}

Picoseconds CasToCas::least() const {
    Picoseconds least = Picoseconds::never();
    for (const bool first : {false, true}) {
        for (const bool second : {false, true}) {
            least = std::min({least, same_group[first][second], same_rank[first][second],
                              other_rank[first][second]});
        }
    }
    return least;
}

}  // namespace pagelens
