// Finds the stream of a LinePredictor that predicts a line, without a search, by two small tables
// of hints. A hint must be checked when it is used. Only the encoder has these tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/accesses/event.hpp"

namespace pagelens::detail {

class StreamHints {
  public:
    static constexpr unsigned none = 0xff;
    StreamHints() {
        exact_.fill(none);
        near_.fill(none);
    }
    std::uint8_t& exact(EventKind kind, std::uint64_t line) { return exact_[hash(kind, line)]; }
    std::uint8_t& near(EventKind kind, std::uint64_t line) { return near_[hash(kind, line >> 6)]; }

  private:
    static std::size_t hash(EventKind kind, std::uint64_t value) {
        return ((value * 8 + static_cast<std::uint64_t>(kind)) * 0x9e3779b97f4a7c15u) >> 56;
    }
    std::array<std::uint8_t, 256> exact_;  // by predicted line
    std::array<std::uint8_t, 256> near_;   // by the page where the stream stands
};

}  // namespace pagelens::detail
