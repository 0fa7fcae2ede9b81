#include "probes/latency.hpp"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/random/philox.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t places_between_looks = 1 << 20;

struct Link {
    Link* next;
};

// Links the places into one cycle that is as likely as any other (S. Sattolo, An algorithm to
// generate a random cyclic permutation, Information Processing Letters 22, 1986).
template <class PlaceOf>
void link_cycle(std::size_t places, PlaceOf place_of, Random& random) {
    for (std::size_t i = 0; i < places; ++i) place_of(i)->next = place_of(i);
    for (std::size_t i = places - 1; i > 0; --i) {
        if (i % places_between_looks == 0 && stop_requested()) return;
        std::swap(place_of(i)->next, place_of(random.below(static_cast<std::uint32_t>(i)))->next);
    }
}

const Link* follow(const Link* at, std::size_t links) {
    for (; links > 0; --links) at = at->next;
    return at;
}

void check(std::size_t footprint, std::size_t stride, std::size_t loads) {
    if (stride == 0 || stride % line != 0) {
        throw std::invalid_argument("stride: " + std::to_string(stride) + "; a multiple of 64");
    }
    if (footprint % stride != 0 || footprint / stride < 2 ||
        footprint / stride > std::size_t{1} << 32) {
        throw std::invalid_argument("footprint_bytes: " + std::to_string(footprint) +
                                    "; 2 to 2^32 strides of " + std::to_string(stride));
    }
    if (loads == 0) throw std::invalid_argument("loads: 0; at least 1");
}

}  // namespace

LatencyResult latency(const Memory& memory, std::size_t footprint_bytes, std::size_t stride,
                      std::size_t loads, std::size_t repeats, int cpu, std::uint64_t seed) {
    check(footprint_bytes, stride, loads);
    const Memory::Use use(memory);
    std::byte* const base = use.at<std::byte>(0, footprint_bytes, "footprint_bytes");
    const std::size_t places = footprint_bytes / stride, lines = stride / line;
    // The line of place i: of a Philox block of its own, as nothing but the memory keeps it.
    const auto place_of = [&](std::size_t i) {
        const std::size_t within = lines == 1
                                       ? 0
                                       : philox4x32({static_cast<std::uint32_t>(i)},
                                                    {static_cast<std::uint32_t>(seed),
                                                     static_cast<std::uint32_t>(seed >> 32)})[0] %
                                             lines;
        return reinterpret_cast<Link*>(base + i * stride + within * line);
    };

    const std::span<const int> cpus(&cpu, 1);
    const Link* start = nullptr;
    const Link* last = nullptr;
    bool once = true;
    run_pinned(cpus, [&](const Member&) {
        Random random(seed, 0, 0, Stream::chase);
        link_cycle(places, place_of, random);
        start = place_of(0);
        last = start;
        const std::size_t end = repeats * loads % places;
        const Link* at = start;
        for (std::size_t i = 0; i < places; ++i) {
            if (i % places_between_looks == 0 && stop_requested()) return;
            if (i == end) last = at;
            at = at->next;
            once = once && (at == start) == (i + 1 == places);
        }
    });
    check_stop();
    const Link* at = start;
    const Times times = timed(cpus, repeats, [&](const Member&) { at = follow(at, loads); });
    return {times.slowest(), once && at == last};
}

}  // namespace pagelens::probes
