#include "tracer/follow_exec.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

namespace pagelens {

namespace {

// The emulator cannot give a program the rights of its file's owner.
bool changes_user(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
}

constexpr std::string_view preload = "LD_PRELOAD=";
constexpr int script_depth = 4;  // as the kernel's BINPRM_MAX_RECURSION

bool executable(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
}

std::string first_bytes(const std::string& path, std::size_t count) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes(count, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<std::size_t>(in.gcount()));
    return bytes;
}

bool is_x86_64(std::string_view bytes) {
    Elf64_Ehdr header;
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64;
}

// The interpreter and its one argument, if `bytes` begin a script.
std::vector<std::string> script_interpreter(std::string_view bytes) {
    std::vector<std::string> words;
    if (!bytes.starts_with("#!")) return words;
    std::istringstream line(std::string(bytes.substr(2, bytes.find('\n') - 2)));
    std::string interpreter, argument;
    line >> interpreter;
    std::getline(line >> std::ws, argument);
    if (interpreter.empty()) return words;
    words.push_back(interpreter);
    if (!argument.empty()) words.push_back(argument);
    return words;
}

template <class T>
T* guest_pointer(std::uint64_t guest_base, std::uint64_t address) {
    return address == 0 ? nullptr : reinterpret_cast<T*>(guest_base + address);
}

}  // namespace

ExecRequest exec_request(const SystemCall& call, std::uint64_t guest_base,
                         const std::string& running) {
    ExecRequest request;
    const bool at = call.number == nr::execveat;
    const auto& argument = call.argument;
    const char* path = guest_pointer<const char>(guest_base, argument[at ? 1 : 0]);
    if (path == nullptr) return request;
    request.path = path;
    if (at && !request.path.starts_with('/')) {
        const int directory = static_cast<int>(argument[0]);
        const std::string base =
            directory == -100 ? "." : "/proc/self/fd/" + std::to_string(directory);
        request.path = request.path.empty() ? base : base + "/" + request.path;
    }
    // For the kernel this would be the emulator.
    if (request.path == "/proc/self/exe") request.path = running;
    request.arguments = guest_pointer<char* const>(guest_base, argument[at ? 2 : 1]);
    request.environment = guest_pointer<char* const>(guest_base, argument[at ? 3 : 2]);
    request.runs = executable(request.path);
    // Guest addresses are host addresses in the arrays too only if guest memory begins at 0.
    if (!request.runs || guest_base != 0 || changes_user(request.path)) return request;

    std::string program = request.path;
    for (int depth = 0; depth < script_depth; ++depth) {
        const std::string bytes = first_bytes(program, 256);
        if (is_x86_64(bytes)) {
            request.traceable = true;
            break;
        }
        std::vector<std::string> words = script_interpreter(bytes);
        if (words.empty()) break;
        program = words.front();
        if (depth > 0) words.push_back(request.interpreter.front());
        if (depth > 0) {
            request.interpreter.erase(request.interpreter.begin());
        }
        request.interpreter.insert(request.interpreter.begin(), words.begin(), words.end());
    }
    return request;
}

void exec_traced(const ExecRequest& request, const Options& given) {
    Options next = given;
    next.output = next.child_output;
    next.function_file.clear();  // the function is the first program's
    ++next.program;

    std::vector<std::string> environment;
    std::string preloaded = next.hooks;  // also where the program clears next environment
    for (char* const* variable = request.environment; variable != nullptr && *variable != nullptr;
         ++variable) {
        const std::string_view text = *variable;
        if (!text.starts_with(preload)) {
            environment.emplace_back(text);
        } else if (const std::string_view theirs = text.substr(preload.size());
                   theirs.find(next.hooks) != theirs.npos) {
            preloaded = theirs;
        } else if (!theirs.empty()) {
            preloaded.append(":").append(theirs);
        }
    }
    std::vector<std::string> words{next.qemu, "-plugin", plugin_argument(next), "-E",
                                   std::string(preload) + preloaded};
    environment.push_back(std::string(preload) + next.plugin);
    char* const* argument = request.arguments;
    if (request.interpreter.empty()) {
        if (argument != nullptr && *argument != nullptr)
            words.insert(words.end(), {"-0", *argument});
        words.push_back(request.path);
    } else {
        words.insert(words.end(), request.interpreter.begin(), request.interpreter.end());
        words.push_back(request.path);
    }
    if (argument != nullptr && *argument != nullptr) {
        for (++argument; *argument != nullptr; ++argument) words.emplace_back(*argument);
    }
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    ::execve(next.qemu.c_str(), argv.data(), envp.data());
}

}  // namespace pagelens
