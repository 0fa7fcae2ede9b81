#include "tracer/dynamorio/program_start.hpp"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace pagelens {

namespace {

constexpr std::string_view program_variable = "DYNAMORIO_EXE_PATH=";
constexpr std::string_view engine_variable = "DYNAMORIO_OPTIONS=";
constexpr std::string_view tracer_variable = "PAGELENS_TRACER=";

std::string engine_options;  // for children

bool is_ours(std::string_view variable) {
    return variable.starts_with("DYNAMORIO_") || variable.starts_with(tracer_variable);
}

std::vector<std::string> words_of(const char* path) {
    std::ifstream in(path, std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
    return words;
}

// Returns where the kernel put the program's arguments: first their number, then the arguments, the
// environment and the auxiliary vector. It is the 28th field of the process's state (proc(5)).
std::uint64_t* initial_stack() {
    std::ifstream in("/proc/self/stat");
    std::string text;
    std::getline(in, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int number = 3; number <= 28; ++number) fields >> field;
    return reinterpret_cast<std::uint64_t*>(std::strtoull(field.c_str(), nullptr, 10));
}

// Moves down what follows, so that nothing shows where the variables were.
void hide_variables() {
    std::uint64_t* const stack = initial_stack();
    if (stack == nullptr) return;
    std::uint64_t* from = stack + 1 + stack[0] + 1;
    std::uint64_t* to = from;
    for (; *from != 0; ++from) {
        if (!is_ours(reinterpret_cast<const char*>(*from))) *to++ = *from;
    }
    if (to == from) return;
    for (*to++ = *from++; *from != AT_NULL; from += 2) {
        *to++ = from[0];
        *to++ = from[1];
    }
    *to++ = AT_NULL;
    *to++ = 0;
}

}  // namespace

ProgramStart take_program_start() {
    ProgramStart start;
    std::string program;
    bool known = false;
    for (const std::string& variable : words_of("/proc/self/environ")) {
        const std::string_view text = variable;
        if (text.starts_with(program_variable)) program = text.substr(program_variable.size());
        if (text.starts_with(engine_variable)) {
            engine_options = text.substr(engine_variable.size());
        }
        if (text.starts_with(tracer_variable)) {
            start.options = parse_options(text.substr(tracer_variable.size()));
            known = true;
        }
    }
    if (!known) throw std::invalid_argument("no PAGELENS_TRACER in the environment");
    start.command = words_of("/proc/self/cmdline");
    if (start.command.empty()) start.command.emplace_back();
    start.command.front() = program;
    hide_variables();
    return start;
}

EngineExec* exec_in_engine(const ExecRequest& request, const Options& given) {
    Options options = given;
    options.output = options.child_output;
    options.function_file.clear();  // the region of interest is the first program's
    options.skip = 0;
    ++options.program;

    auto* const made = new EngineExec;
    std::vector<std::string>& words = made->words;
    char* const* argument = request.arguments;
    std::string program = request.path;
    if (request.interpreter.empty()) {
        if (argument != nullptr && *argument != nullptr) words.emplace_back(*argument);
    } else {
        program = request.interpreter.front();
        words = request.interpreter;
        words.push_back(request.path);
    }
    if (argument != nullptr && *argument != nullptr) {
        for (++argument; *argument != nullptr; ++argument) words.emplace_back(*argument);
    }
    std::vector<std::string>& environment = made->environment;
    for (char* const* variable = request.environment; variable != nullptr && *variable != nullptr;
         ++variable) {
        if (!is_ours(*variable)) environment.emplace_back(*variable);
    }
    const bool preloads = std::any_of(environment.begin(), environment.end(), [](const auto& text) {
        return text.starts_with("LD_PRELOAD=");
    });
    if (!preloads) environment.push_back("LD_PRELOAD=" + options.hooks);  // it was cleared
    environment.push_back(std::string(program_variable) + program);
    environment.push_back(std::string(engine_variable) + engine_options);
    environment.push_back(std::string(tracer_variable) + plugin_argument(options));
    for (std::string& word : words) made->argv.push_back(word.data());
    for (std::string& variable : environment) made->envp.push_back(variable.data());
    made->argv.push_back(nullptr);
    made->envp.push_back(nullptr);
    made->path = options.qemu;
    return made;
}

}  // namespace pagelens
