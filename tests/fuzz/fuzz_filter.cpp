// The filter on any accesses: every cache and TLB of its family sees what it sees of all accesses.
//
// The first byte chooses the pages' sets, which lines threads share and how accesses come in
// groups. Then four bytes are an access.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/cpp/reference_filter.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t most = 256;  // accesses, so that a run takes half a millisecond

Access access_of(const std::uint8_t* bytes) {
    // Few sets of caches have all lines, so that these push each other out.
    const std::uint64_t line = bytes[1] % 8 + std::uint64_t{64} * bytes[2];
    const std::uint64_t address = 0x7f00'0000'0000 + line * line_bytes + bytes[3] % line_bytes;
    if (bytes[0] >= 4) return {bytes[0] % 2 == 0 ? Access::load : Access::store, address};
    if (bytes[0] > 0) return {Access::stream, address};
    return {Access::unmap, address >> page_bits, 1 + bytes[3] % 40u};
}

void check(const std::vector<Access>& accesses, const std::vector<Event>& events,
           const ReferenceCache& cache, unsigned tlb_bits) {
    if (replay_all(accesses, cache, tlb_bits) != replay_events(events, cache, tlb_bits))
        std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::vector<Access> accesses;
    for (std::size_t at = 1; at + 4 <= size && accesses.size() < most; at += 4)
        accesses.push_back(access_of(data + at));
    const unsigned page_sets_used = data[0] % 2 == 0 ? page_sets : 1;
    const std::uint64_t group = 1 + data[0] / 2 % 4, shared = data[0] / 8 % 8;
    const std::vector<Event> events = filtered(accesses, group, page_sets_used, shared);
    for (const CacheShape shape : {CacheShape{64, 8}, {256, 4}, {512, 2}})
        check(accesses, events, ReferenceCache(shape.sets, shape.ways), 0);
    check(accesses, events, ReferenceCache(16, 4), page_bits);
    if (page_sets_used == 1) check(accesses, events, ReferenceCache(1, 4), page_bits);
    return 0;
}
