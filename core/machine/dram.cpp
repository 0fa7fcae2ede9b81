#include "core/machine/dram.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pagelens {
namespace {

void check(const DramConfig& config) {
    config.timings.check();
    const auto within = [](const char* name, unsigned value, unsigned most) {
        if (value < 1 || value > most) {
            throw std::invalid_argument(std::string(name) + ": " + std::to_string(value) +
                                        " is not from 1 to " + std::to_string(most));
        }
    };
    within("window", config.window, DramChannel::most_window);
    within("outstanding", config.outstanding, Dram::most_outstanding);
    if (config.path < Picoseconds(0) || config.path > Picoseconds(1'000'000'000)) {
        throw std::invalid_argument("path: must be from 0 to 1 ms");
    }
}

}  // namespace

Dram::Dram(const DramConfig& config)
    : map_(config.map),
      config_(config),
      returns_(config.timings.CL + config.timings.burst + config.path,
               config.timings.CWL + config.timings.burst) {
    pagelens::check(config);
    const std::uint32_t banks = std::uint32_t{1} << map_.channel_shift();
    const DramChannelShape shape{banks, map_.group_shift(), map_.rank_shift()};
    channels_.assign(map_.channels(),
                     DramChannel(shape, config.timings, config.policy, config.window));
}

void Dram::check(std::span<const std::span<const std::uint64_t>> cores) const {
    for (const auto& core : cores) {
        for (const std::uint64_t request : core) {
            if ((request & ~write_bit) >= map_.bytes()) {
                throw std::out_of_range("address " + std::to_string(request & ~write_bit) +
                                        " is not below the DRAM's " + std::to_string(map_.bytes()) +
                                        " bytes");
            }
        }
    }
}

void Dram::reserve(std::size_t cores) {
    const std::size_t lines = cores * config_.outstanding;
    for (DramChannel& channel : channels_) channel.reserve(lines);
    returns_.reserve(lines);
}

// Finds where a core's next request goes before the request is issued, so that nothing afterwards
// waits for it.
void Dram::locate(Core& core) const {
    if (core.requests.empty()) return;
    const std::uint64_t request = core.requests.front();
    const DramPlace place = map_(request & ~write_bit);
    const std::uint32_t banks = std::uint32_t{1} << map_.channel_shift();
    core.channel = place.bank >> map_.channel_shift();
    core.first.row = place.row;
    core.first.bank = static_cast<std::uint16_t>(place.bank & (banks - 1));
    core.first.group = static_cast<std::uint16_t>(core.first.bank >> map_.group_shift());
    core.first.rank = static_cast<std::uint16_t>(core.first.bank >> map_.rank_shift());
    core.first.write = static_cast<std::uint16_t>(request / write_bit);
}

void Dram::issue(std::uint32_t number, Picoseconds now) {
    Core& core = cores_[number];
    if (core.requests.empty()) return;
    channels_[core.channel].add({core.first, now});
    core.requests = core.requests.subspan(1);
    locate(core);
}

// Lets lines arrive until `end`, and their cores issue the next ones.
void Dram::issue_arrived(Picoseconds end) {
    while (returns_.next() < end) {
        time_ = returns_.next();
        issue(returns_.pop(), time_);
    }
}

// Events of one moment happen in this order: lines arrive, reads first, and their cores issue the
// next ones; then commands go out. Since a line is under way for some time, the channels do not
// affect each other for that time. What arrives until then is known, and each channel runs by
// itself.
void Dram::run(std::span<const std::span<const std::uint64_t>> cores) {
    check(cores);
    reserve(cores.size());
    cores_.clear();
    for (const auto& requests : cores) {
        Core& core = cores_.emplace_back();
        core.requests = requests;
        core.first.core = static_cast<std::uint32_t>(cores_.size() - 1);
        locate(core);
    }
    for (unsigned turn = 0; turn < config_.outstanding; ++turn) {
        for (std::uint32_t core = 0; core < cores_.size(); ++core) issue(core, time_);
    }
    for (;;) {
        Picoseconds begin = returns_.next();
        for (const DramChannel& channel : channels_) begin = std::min(begin, channel.next());
        if (begin == Picoseconds::never()) break;
        const Picoseconds end = begin + returns_.least();
        issue_arrived(end);
        for (DramChannel& channel : channels_) {
            if (channel.next() < end) channel.run(end, returns_);
        }
    }
    for (DramChannel& channel : channels_) channel.settle(time_);
}

std::vector<DramBankCounts> Dram::counts() const {
    std::vector<DramBankCounts> all;
    for (const DramChannel& channel : channels_) {
        const std::vector<DramBankCounts> banks = channel.counts();
        all.insert(all.end(), banks.begin(), banks.end());
    }
    return all;
}

Picoseconds Dram::busy(const DramBankCounts& counts) const {
    const DramTimings& t = config_.timings;
    const auto times = [](std::uint64_t count, Picoseconds time) {
        return Picoseconds(static_cast<std::int64_t>(count) * time.raw());
    };
    return times(counts.conflicts, t.tRP + t.tRCD) + times(counts.misses, t.tRCD) +
           times(counts.reads + counts.writes, t.burst) + times(counts.refreshes, t.tRFC);
}

}  // namespace pagelens
