// How the program was started under DynamoRIO: by executing libdynamorio.so with the program's
// arguments, and with the rest in variables of the environment that the program does not see.
//
//   DYNAMORIO_EXE_PATH   the program
//   DYNAMORIO_OPTIONS    DynamoRIO's options, which name the client
//   PAGELENS_TRACER      the tracer's options, as QEMU's -plugin takes them (tracer/options.hpp)
#pragma once

#include <string>
#include <vector>

#include "tracer/follow_exec.hpp"
#include "tracer/options.hpp"

namespace pagelens {

struct ProgramStart {
    Options options;
    std::vector<std::string> command;  // the program's path and its arguments
};

// Reads it, and removes these variables from the environment that the program is about to get.
// Before the program runs. Throws std::invalid_argument.
ProgramStart take_program_start();

// What an execve of the program should execute instead, so that the new program runs in the engine.
// The texts stay valid until the call is made.
struct EngineExec {
    std::vector<std::string> words, environment;
    std::vector<char*> argv, envp;
    std::string path;
};
EngineExec* exec_in_engine(const ExecRequest& request, const Options& given);

}  // namespace pagelens
