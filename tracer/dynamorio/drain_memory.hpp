// What a thread's recording keeps for the code of blocks.
#pragma once

#include <array>
#include <cstdint>

#include "tracer/dynamorio/recorded_block.hpp"

namespace pagelens {

inline constexpr unsigned drain_places = 1u << 14;

// The code finds it where the thread's recording begins.
struct DrainMemory {
    // The loop that is worked through.
    // Of the iteration that comes next. Only the steady ones are kept from one to the next.
    std::array<std::uint64_t, most_steady_words + most_other_words> next_values;
    std::uint64_t iterations_left = 0;      // if they are counted
    std::uint64_t iterations_left_out = 0;  // the last time; none are any more if negative

    // Where in the strip the line of an access was the last time (Strip::place_of). Each access of
    // a block has one of these. What is there is compared with its address in any case.
    std::array<std::uint16_t, drain_places> places{};
};

}  // namespace pagelens
