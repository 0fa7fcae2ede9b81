// An access of an instruction whose addresses depend on more than general registers.
#pragma once

#include <cstdint>
#include <functional>

namespace pagelens {

struct IrregularAccess {
    std::uint64_t address;
    bool store;
    unsigned bytes;
    bool stream = false;  // a store past the caches
};
using Emit = std::function<void(const IrregularAccess&)>;

}  // namespace pagelens
