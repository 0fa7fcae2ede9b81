// Two threads on two processors that write one file in turn, as the ranks of a job do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens::probes {

// Writes `bytes` at each of the offsets, in turn by the calling thread and by one on another
// processor: each write begins when the last one has ended. Returns the processor seconds of each
// write but the first, which no other processor came before. Throws Failure where the system
// refuses.
std::vector<double> alternate_writes(int descriptor, std::size_t bytes,
                                     const std::vector<std::int64_t>& offsets, int other_core);

}  // namespace pagelens::probes
