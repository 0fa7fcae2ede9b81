// A traced program executes another: that one is run under the emulator too, by this process
// itself, so it works for static programs, shells and vfork alike, and the process id stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/options.hpp"
#include "tracer/system_calls.hpp"

namespace pagelens {

struct ExecRequest {
    bool runs = false;       // the kernel will execute it, as far as can be told
    bool traceable = false;  // an x86-64 program, or a script for one
    std::string path;        // as given
    std::vector<std::string>
        interpreter;                   // of a script: what runs, before its own path; else empty
    char* const* arguments = nullptr;  // of the caller, in guest memory
    char* const* environment = nullptr;
};

// `running`: the file of the program that makes the call.
ExecRequest exec_request(const SystemCall& call, std::uint64_t guest_base,
                         const std::string& running);

// Returns only if it fails.
void exec_traced(const ExecRequest& request, const Options& options);

}  // namespace pagelens
