// What a thread's recording keeps for the code of a loop.
#pragma once

#include <array>
#include <cstdint>

#include "tracer/dynamorio/recorded_block.hpp"

namespace pagelens {

// The loop that is worked through. The code finds it where the thread's recording begins.
struct DrainedLoop {
    // Of the iteration that comes next. Only the steady ones are kept from one to the next.
    std::array<std::uint64_t, most_steady_words + most_other_words> next_values;
    std::uint64_t iterations_left = 0;      // if they are counted
    std::uint64_t iterations_left_out = 0;  // the last time; none are any more if negative
};

}  // namespace pagelens
