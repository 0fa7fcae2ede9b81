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

Dram::Dram(const DramConfig& config) : map_(config.map), config_(config) {
    pagelens::check(config);
    const std::uint32_t banks = std::uint32_t{1} << map_.channel_shift();
    const DramChannelShape shape{banks, map_.group_shift(), map_.rank_shift()};
    channels_.assign(map_.channels(),
                     DramChannel(shape, config.timings, config.policy, config.window));
    next_.assign(channels_.size(), Picoseconds::never());
    read_time_ = config.timings.CL + config.timings.burst + config.path;
    write_time_ = config.timings.CWL + config.timings.burst;
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
    if (cores <= cores_) return;
    cores_ = cores;
    const std::size_t most = cores * config_.outstanding;
    for (DramChannel& channel : channels_) channel.reserve(most);
    reads_.reserve(most);
    writes_.reserve(most);
}

void Dram::issue(std::uint64_t request, std::uint32_t core, Picoseconds now) {
    const DramPlace place = map_(request & ~write_bit);
    const std::size_t channel = place.bank >> map_.channel_shift();
    const auto bank =
        static_cast<std::uint16_t>(place.bank & ((std::uint32_t{1} << map_.channel_shift()) - 1));
    channels_[channel].add({now, core, place.row, bank, (request & write_bit) != 0}, now);
    next_[channel] = channels_[channel].next();
}

void Dram::step(std::size_t channel) {
    const Picoseconds now = next_[channel];
    DramRequest served;
    const bool data_moves = channels_[channel].step(served);
    next_[channel] = channels_[channel].next();
    if (!data_moves) return;
    if (served.write) {
        writes_.push({now + write_time_, served.core});
    } else {
        const Picoseconds there = now + read_time_;
        totals_.read_latency += there - served.issued;
        reads_.push({there, served.core});
    }
}

void Dram::run(std::span<const std::span<const std::uint64_t>> cores) {
    check(cores);
    reserve(cores.size());
    std::vector<std::size_t> issued(cores.size(), 0);
    for (unsigned turn = 0; turn < config_.outstanding; ++turn) {
        for (std::uint32_t core = 0; core < cores.size(); ++core) {
            if (turn < cores[core].size()) {
                issue(cores[core][issued[core]++], core, totals_.time);
            }
        }
    }
    // What happens at one moment, happens in this order: lines arrive, reads first, and their cores
    // issue the next ones; then commands go out, those of the first channel first.
    for (;;) {
        std::size_t first = 0;
        for (std::size_t i = 1; i < next_.size(); ++i) {
            if (next_[i] < next_[first]) first = i;
        }
        const bool read = reads_.next() <= writes_.next();
        const Picoseconds arrival = read ? reads_.next() : writes_.next();
        if (arrival <= next_[first]) {
            if (arrival == Picoseconds::never()) break;
            const Done done = (read ? reads_ : writes_).pop();
            totals_.time = arrival;
            if (issued[done.core] < cores[done.core].size()) {
                issue(cores[done.core][issued[done.core]++], done.core, arrival);
            }
        } else {
            step(first);
        }
    }
    for (DramChannel& channel : channels_) channel.settle(totals_.time);
}

std::vector<DramBankCounts> Dram::counts() const {
    std::vector<DramBankCounts> all;
    for (const DramChannel& channel : channels_) {
        all.insert(all.end(), channel.counts().begin(), channel.counts().end());
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
