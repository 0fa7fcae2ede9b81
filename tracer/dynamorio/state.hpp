// The state that the parts of the client share.
#pragma once

#include <atomic>

#include "tracer/options.hpp"
#include "tracer/tracer.hpp"

namespace pagelens {

enum class Stage {
    waiting,    // until the function of --from-function, and outside the region of --region
    skipping,   // --skip accesses are counted
    tracing,    // every access
    finishing,  // the budget is used up: instructions are counted
    idle,       // an untraced child
};

inline Options options;
inline Tracer* tracer = nullptr;  // never deleted
inline std::atomic<Stage> stage{Stage::tracing};

// Code is translated anew for a stage that records something else. From any thread.
void go_to(Stage to);

// The loop that begins at this address is translated anew, as a block like others. From any thread.
void record_as_block(std::uint64_t loop);

}  // namespace pagelens
