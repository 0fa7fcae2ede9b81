#include "tracer/options.hpp"

#include <unistd.h>

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

namespace pagelens {

namespace {

using Member = std::variant<std::string Options::*, std::uint64_t Options::*>;

const struct {
    const char* name;
    Member member;
} keys[] = {
    {"plugin", &Options::plugin},
    {"qemu", &Options::qemu},
    {"hooks", &Options::hooks},
    {"output", &Options::output},
    {"child_output", &Options::child_output},
    {"status", &Options::status},
    {"skip", &Options::skip},
    {"accesses", &Options::accesses},
    {"region", &Options::region},
    {"function_file", &Options::function_file},
    {"function_address", &Options::function_address},
    {"wide_reads", &Options::wide_reads},
    {"any_tlb", &Options::any_tlb},
    {"code_after", &Options::code_after},
    {"loops", &Options::loops},
    {"bound", &Options::bound},
    {"rank", &Options::rank},
    {"chosen", &Options::chosen},
    {"starter", &Options::starter},
    {"program", &Options::program},
};

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        throw std::invalid_argument("not a number: " + std::string(text));
    }
    return value;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
    Options options;
    for (int i = 0; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::size_t equals = argument.find('=');
        const std::string_view value = argument.substr(equals == argument.npos ? 0 : equals + 1);
        bool known = false;
        for (const auto& key : keys) {
            if (argument.substr(0, equals) != key.name) continue;
            known = true;
            if (const auto* text = std::get_if<std::string Options::*>(&key.member)) {
                options.** text = value;
            } else {
                options.*std::get<std::uint64_t Options::*>(key.member) = number(value);
            }
        }
        if (!known) throw std::invalid_argument("unknown argument " + std::string(argument));
    }
    if (options.output.empty()) throw std::invalid_argument("no output=");
    return options;
}

std::string plugin_argument(const Options& options) {
    std::string all;
    const auto append = [&all](const char* key, const std::string& value) {
        if (!all.empty()) all += ',';
        all += std::string(key) + "=";
        for (const char c : value) all += c == ',' ? std::string(",,") : std::string(1, c);
    };
    append("file", options.plugin);
    for (const auto& key : keys) {
        if (const auto* text = std::get_if<std::string Options::*>(&key.member)) {
            if (!(options.**text).empty()) append(key.name, options.**text);
        } else {
            append(key.name,
                   std::to_string(options.*std::get<std::uint64_t Options::*>(key.member)));
        }
    }
    return all;
}

Options parse_options(std::string_view text) {
    std::vector<std::string> words(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != ',') {
            words.back() += text[i];
        } else if (i + 1 < text.size() && text[i + 1] == ',') {
            words.back() += ',';
            ++i;
        } else {
            words.emplace_back();
        }
    }
    std::vector<const char*> arguments;
    for (const std::string& word : words) {
        if (!word.starts_with("file=")) arguments.push_back(word.c_str());
    }
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string with_process_id(std::string name, std::uint64_t program) {
    std::string id = std::to_string(::getpid());
    if (program > 1) id.append("-").append(std::to_string(program));
    for (std::size_t at = 0; (at = name.find("%p", at)) != name.npos;) {
        name.replace(at, 2, id);
        at += id.size();
    }
    return name;
}

}  // namespace pagelens
