// The code that is added to the program's blocks when DynamoRIO translates them.
#pragma once

#include <dr_api.h>

#include <cstdint>

#include "tracer/dynamorio/recording.hpp"

namespace pagelens {

// The functions that the code calls. All but `drain` find the program's registers by
// dr_get_mcontext, and may send the program elsewhere by dr_redirect_execution.
struct InstrumentationCalls {
    void (*drain)();
    void (*doorbell)(app_pc next, std::uint64_t unused);  // `next`: the instruction after it
    void (*irregular)(app_pc pc, std::uint64_t block);    // the instruction and its block's number
    void (*begin_function)(app_pc pc, std::uint64_t unused);
};

class Instrumentation {
  public:
    // Registers for the events of translation. `slots_register` and `slots_offset` say where a
    // thread's ThreadSlots are.
    static bool install(RecordedBlocks& blocks, const InstrumentationCalls& calls,
                        reg_id_t slots_register, unsigned slots_offset);

    // The program set the direction flag: its string operations may run backwards from now on.
    static bool backward_strings();
};

}  // namespace pagelens
