// A line that a core reads or writes.
#pragma once

#include <cstdint>

#include "core/machine/picoseconds.hpp"

namespace pagelens {

// 16 bytes, which move as one.
struct DramLine {
    std::uint32_t core = 0;
    std::uint32_t row = 0;
    std::uint16_t bank = 0, group = 0, rank = 0;  // of the channel
    std::uint16_t write = 0;                      // or 1
};

struct DramRequest {
    DramLine line;
    Picoseconds issued;
};

}  // namespace pagelens
