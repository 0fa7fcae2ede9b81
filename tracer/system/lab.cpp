#include "tracer/system/lab.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace pagelens {

namespace {

// The numbers of "a:b:c"; all of them must be there.
std::vector<std::uint32_t> numbers(std::string_view option, std::string_view text) {
    std::vector<std::uint32_t> found;
    while (true) {
        const std::string_view digits = text.substr(0, text.find(':'));
        std::uint32_t value = 0;
        const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
        if (error != std::errc() || end != digits.end())
            throw std::invalid_argument("option " + std::string(option) +
                                        ": not a list of numbers");
        found.push_back(value);
        if (digits.size() == text.size()) return found;
        text.remove_prefix(digits.size() + 1);
    }
}

// Names come from the program: JSON's own characters are escaped, others are the reader's to
// decode.
std::string quoted(const std::string& name) {
    std::string text = "\"";
    for (const char c : name) {
        if (c == '"' || c == '\\') text += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) text += c;
    }
    return text + '"';
}

}  // namespace

LabOptions parse_lab_options(int argc, const char* const* argv) {
    LabOptions options;
    LiveMachine& machine = options.machine;
    for (const std::string_view word : std::vector<std::string_view>(argv, argv + argc)) {
        const std::size_t equals = word.find('=');
        const std::string_view name = word.substr(0, equals);
        const std::string_view value = equals == word.npos ? "" : word.substr(equals + 1);
        if (name == "results" || name == "data") {
            (name == "data" ? options.data : options.results) = value;
            continue;
        }
        const std::vector<std::uint32_t> n = numbers(name, value);
        if (name == "cores" && n.size() == 1) {
            machine.cores = n[0];
        } else if (name == "l1" && n.size() == 1) {
            machine.l1_ways = n[0];
        } else if (name == "l2" && n.size() == 3) {
            machine.l2_sets = n[0], machine.l2_ways = n[1], machine.l2_shared_by = n[2];
        } else if (name == "cache" && n.size() == 2) {
            machine.slots = n[0], machine.ways = n[1];
        } else if (name == "nodes") {
            machine.node_begins = n;
        } else if (name == "frames" && n.size() == 1) {
            machine.frames = n[0];
        } else {
            throw std::invalid_argument("unknown option " + std::string(word));
        }
    }
    return options;
}

Lab::Lab(const LabOptions& options)
    : caches(options.machine),
      results_(options.results, std::ios::app),
      data_(options.data, std::ios::app | std::ios::binary),
      used_((options.machine.frames + 7) / 8) {
    if (!results_ || !data_) {
        throw std::runtime_error("cannot write " + options.results + " and " + options.data);
    }
}

void Lab::begin(const std::string& phase) {
    caches.reset_counts();
    instructions = 0;
    phases_.clear();
    order_.clear();
    open_ = {phase};
    paused = false;
    std::fill(used_.begin(), used_.end(), 0);
}

void Lab::begin_region(const std::string& name) {
    if (open_.empty()) return;
    settle();
    open_.push_back(open_.front() + "/" + name);
}

void Lab::end_region(const std::string& name) {
    if (open_.empty()) return;
    settle();
    const auto found = std::find(open_.rbegin(), open_.rend() - 1, open_.front() + "/" + name);
    if (found != open_.rend() - 1) open_.erase(std::next(found).base(), open_.end());
}

void Lab::end() {
    if (open_.empty()) return;
    if (paused) resume();
    settle();
    for (const std::string& name : order_) {
        const Phase& phase = phases_[name];
        results_ << "{\"phase\": " << quoted(name) << ", \"instructions\": " << phase.instructions
                 << ", \"accesses\": " << phase.accesses;
        for (std::size_t i = 0; i < components; ++i) {
            results_ << ", \"" << component_names[i] << "\": " << phase.counts[i];
        }
        results_ << ", \"nodes\": [";
        for (const char* separator = ""; const NodeLines& node : phase.nodes) {
            results_ << separator << "{\"reads\": " << node.reads << ", \"writes\": " << node.writes
                     << '}';
            separator = ", ";
        }
        results_ << "]}\n";
    }
    results_.flush();
    keep(used_);
    open_.clear();
}

void Lab::pause() {
    paused = true;
    caches.hide_nothing();
    instructions_at_pause_ = instructions;
}

void Lab::resume() {
    if (paused) instructions = instructions_at_pause_;
    paused = false;
}

void Lab::keep(const std::vector<char>& bytes) {
    data_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    data_.flush();
}

void Lab::report_address(std::uint64_t address, std::uint32_t frame) {
    results_ << "{\"address\": " << address << ", \"frame\": " << frame << "}\n" << std::flush;
}

void Lab::settle() {
    const std::string& name = open_.back();
    if (phases_.try_emplace(name).second) order_.push_back(name);
    Phase& phase = phases_[name];
    for (std::size_t i = 0; i < components; ++i) phase.counts[i] += caches.counts()[i];
    phase.nodes.resize(caches.nodes().size());
    for (std::size_t i = 0; i < phase.nodes.size(); ++i) phase.nodes[i] += caches.nodes()[i];
    phase.instructions += instructions;
    phase.accesses += caches.accesses();
    caches.reset_counts();
    instructions = 0;
}

}  // namespace pagelens
