// The interface to the engine that runs the program: QEMU (plugin.cpp) or DynamoRIO
// (dynamorio/client.cpp).
#pragma once

#include <cstdint>

namespace pagelens {

struct Engine {
    const char* producer;      // names the engine in the trace
    std::uint64_t guest_base;  // host address of the program's address 0
    // Called by any thread and any number of times, once the budget of accesses is used up.
    void (*budget_used)();
    // Runs `work(argument)` in a thread that the program does not know of. Returns false if it
    // fails. Null: the engine has no such threads yet (Tracer::start_writer).
    bool (*start_thread)(void (*work)(void*), void* argument);
    // Whether the mapping at this host address is the engine's own and not the program's.
    bool (*owns)(std::uint64_t address);
};

}  // namespace pagelens
