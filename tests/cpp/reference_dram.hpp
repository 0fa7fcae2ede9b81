// The slow, obvious DRAM that core/machine/dram.hpp must equal: it ticks, and asks at every tick
// which commands the constraints allow, comparing with the last commands of all banks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/machine/dram.hpp"

namespace pagelens::reference {

// Where a line lies, bit by bit.
struct DramPlaceOf {
    std::uint32_t channel = 0, rank = 0, group = 0, bank = 0, row = 0;
};

inline std::uint32_t parities(const Masks& masks, std::uint64_t address) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < masks.size(); ++i) {
        value |= static_cast<std::uint32_t>(std::popcount(masks[i] & address) % 2) << i;
    }
    return value;
}

inline DramPlaceOf place_of(const DramFields& fields, std::uint64_t address) {
    const std::uint64_t block_bytes = std::uint64_t{1} << fields.interleave_bit;
    const std::uint64_t block = address / block_bytes;
    const auto among = static_cast<std::uint32_t>(block % fields.interleave);
    const std::uint64_t local = block / fields.interleave * block_bytes + address % block_bytes;
    const auto channels = static_cast<std::uint32_t>(std::uint32_t{1} << fields.channel.size());
    return {parities(fields.channel, local) + channels * among, parities(fields.rank, local),
            parities(fields.bank_group, local), parities(fields.bank, local),
            parities(fields.row, local)};
}

class TickingDram {
  public:
    // Time passes in steps of `tick`, which divides all timings.
    TickingDram(const DramConfig& config, std::int64_t tick)
        : config_(config), t_(config.timings), tick_(tick) {
        const auto sizes = [](const Masks& masks) { return std::size_t{1} << masks.size(); };
        ranks_ = sizes(config.map.rank);
        groups_ = sizes(config.map.bank_group);
        banks_ = sizes(config.map.bank);
        channels_.resize(sizes(config.map.channel) * config.map.interleave);
        for (Channel& channel : channels_) {
            for (std::size_t rank = 0; rank < ranks_; ++rank) {
                const std::int64_t clocks = t_.tREFI.raw() * static_cast<std::int64_t>(rank + 1) /
                                            static_cast<std::int64_t>(ranks_) / t_.tCK.raw();
                channel.ranks.push_back({clocks * t_.tCK.raw()});
                for (std::size_t group = 0; group < groups_; ++group) {
                    for (std::size_t bank = 0; bank < banks_; ++bank) {
                        channel.banks.push_back({rank, rank * groups_ + group});
                    }
                }
            }
        }
    }

    void run(std::span<const std::span<const std::uint64_t>> cores) {
        cores_.assign(cores.begin(), cores.end());
        std::size_t left = 0;
        for (const auto& core : cores) left += core.size();
        if (left == 0) return;
        for (unsigned turn = 0; turn < config_.outstanding; ++turn) {
            for (std::size_t core = 0; core < cores_.size(); ++core) issue(core);
        }
        for (;; now_ += tick_) {
            for (Channel& channel : channels_) begin_refreshes(channel);
            for (auto* returns : {&reads_, &writes_}) {
                for (; !returns->empty() && returns->front().at <= now_; returns->pop_front()) {
                    issue(returns->front().core);
                    --left;
                }
            }
            if (left == 0) return;
            for (Channel& channel : channels_) {
                activate_all(channel);
                serve_one(channel);
                activate_all(channel);
                precharge_all(channel);
            }
        }
    }

    [[nodiscard]] std::vector<DramBankCounts> counts() const {
        std::vector<DramBankCounts> all;
        for (const Channel& channel : channels_) {
            for (const Bank& bank : channel.banks) all.push_back(bank.counts);
        }
        return all;
    }
    [[nodiscard]] DramTotals totals() const { return {Picoseconds(now_), Picoseconds(latency_)}; }

  private:
    static constexpr std::int64_t long_ago = -1'000'000'000'000;

    struct Bank {
        std::size_t rank, group;  // the group's number in the channel
        std::optional<std::uint32_t> open = std::nullopt;
        bool closes_itself = false;  // auto-precharge, not yet carried out
        bool closed_for_another = false, just_opened = false;
        std::int64_t last_act = long_ago, last_pre = long_ago;
        std::int64_t last_cas[2] = {long_ago, long_ago};  // [write]
        DramBankCounts counts = {};
    };
    struct Rank {
        std::int64_t refresh_at;
        bool refreshing = false;  // waits for its banks to close
        std::int64_t resting_until = long_ago;
        std::vector<std::int64_t> acts = {};
    };
    struct Request {
        std::uint64_t number;
        std::size_t bank;
        std::uint32_t row;
        bool write;
        std::size_t core;
        std::int64_t issued;
    };
    struct Channel {
        std::vector<Bank> banks;
        std::vector<Rank> ranks;
        std::deque<Request> requests;  // by arrival
        std::uint64_t arrived = 0;
    };
    struct Return {
        std::int64_t at;
        std::size_t core;
    };

    void issue(std::size_t core) {
        if (cores_[core].empty()) return;
        const std::uint64_t request = cores_[core].front();
        cores_[core] = cores_[core].subspan(1);
        const DramPlaceOf place = place_of(config_.map, request & ~Dram::write_bit);
        Channel& channel = channels_[place.channel];
        channel.requests.push_back({channel.arrived++,
                                    (place.rank * groups_ + place.group) * banks_ + place.bank,
                                    place.row, (request & Dram::write_bit) != 0, core, now_});
    }

    [[nodiscard]] std::vector<Request*> window(Channel& channel) const {
        std::vector<Request*> in;
        for (Request& request : channel.requests) {
            if (request.number < channel.requests.front().number + config_.window) {
                in.push_back(&request);
            }
        }
        return in;
    }
    [[nodiscard]] bool wants(Channel& channel, std::size_t bank, bool open_row) const {
        for (const Request* request : window(channel)) {
            if (request->bank == bank && (channel.banks[bank].open == request->row) == open_row) {
                return true;
            }
        }
        return false;
    }

    void begin_refreshes(Channel& channel) {
        for (std::size_t r = 0; r < ranks_; ++r) {
            Rank& rank = channel.ranks[r];
            if (rank.refresh_at <= now_) {
                rank.refreshing = true;
                rank.refresh_at += t_.tREFI.raw();
                for (Bank& bank : channel.banks) {
                    if (bank.rank != r) continue;
                    ++bank.counts.refreshes;
                    bank.closed_for_another = false;
                }
            }
            if (!rank.refreshing) continue;
            const bool quiet = std::ranges::all_of(channel.banks, [&](const Bank& bank) {
                return bank.rank != r || (!bank.open && now_ >= bank.last_pre + t_.tRP.raw() &&
                                          now_ >= bank.last_act + t_.tRC.raw());
            });
            if (quiet) {
                rank.refreshing = false;
                rank.resting_until = now_ + t_.tRFC.raw();
            }
        }
    }

    [[nodiscard]] bool may_activate(const Channel& channel, std::size_t number) const {
        const Bank& bank = channel.banks[number];
        const Rank& rank = channel.ranks[bank.rank];
        if (rank.refreshing || now_ < rank.resting_until) return false;
        if (now_ < bank.last_pre + t_.tRP.raw() || now_ < bank.last_act + t_.tRC.raw())
            return false;
        for (const Bank& other : channel.banks) {
            if (other.rank != bank.rank) continue;
            const auto gap = other.group == bank.group ? t_.tRRD_L : t_.tRRD_S;
            if (now_ < other.last_act + gap.raw()) return false;
        }
        return std::ranges::count_if(
                   rank.acts, [&](std::int64_t act) { return now_ < act + t_.tFAW.raw(); }) < 4;
    }

    void activate_all(Channel& channel) {
        if (config_.policy == RowPolicy::ideal) return;
        for (const Request* request : window(channel)) {  // the oldest first
            Bank& bank = channel.banks[request->bank];
            if (bank.open || !may_activate(channel, request->bank)) continue;
            bank.open = request->row;
            bank.last_act = now_;
            bank.just_opened = true;
            channel.ranks[bank.rank].acts.push_back(now_);
        }
    }

    // From one bank's read or write to another's, by what happens on the bus and in the rank.
    [[nodiscard]] std::int64_t gap(const Bank& first, bool was_write, const Bank& second,
                                   bool write) const {
        const std::int64_t burst = t_.burst.raw();
        if (was_write == write) {
            if (first.rank != second.rank) return burst + t_.tRTRS.raw();
            const Picoseconds in_group = write ? t_.tCCD_L_WR : t_.tCCD_L;
            return std::max((first.group == second.group ? in_group : t_.tCCD_S).raw(), burst);
        }
        const std::int64_t data_of_first = (was_write ? t_.CWL : t_.CL).raw();
        const std::int64_t data_of_second = (write ? t_.CWL : t_.CL).raw();
        if (was_write && first.rank == second.rank) {
            const auto turn = first.group == second.group ? t_.tWTR_L : t_.tWTR_S;
            return data_of_first + burst + turn.raw();
        }
        const auto between = first.rank == second.rank ? t_.tRTW : t_.tRTRS;
        return std::max(t_.tCK.raw(), data_of_first + burst + between.raw() - data_of_second);
    }

    [[nodiscard]] bool may_serve(const Channel& channel, const Request& request) const {
        const Bank& bank = channel.banks[request.bank];
        const Rank& rank = channel.ranks[bank.rank];
        if (config_.policy == RowPolicy::ideal) {
            if (now_ < rank.resting_until) return false;
        } else if (bank.open != request.row || bank.closes_itself || rank.refreshing ||
                   now_ < bank.last_act + t_.tRCD.raw()) {
            return false;
        }
        for (const Bank& other : channel.banks) {
            for (const bool was_write : {false, true}) {
                if (now_ < other.last_cas[was_write] + gap(other, was_write, bank, request.write)) {
                    return false;
                }
            }
        }
        return true;
    }

    void serve_one(Channel& channel) {
        for (const Request* found : window(channel)) {
            if (!may_serve(channel, *found)) continue;
            const Request request = *found;
            Bank& bank = channel.banks[request.bank];
            ++(request.write ? bank.counts.writes : bank.counts.reads);
            ++(!bank.just_opened         ? bank.counts.hits
               : bank.closed_for_another ? bank.counts.conflicts
                                         : bank.counts.misses);
            bank.just_opened = bank.closed_for_another = false;
            bank.last_cas[request.write] = now_;
            const std::int64_t data =
                now_ + (request.write ? t_.CWL : t_.CL).raw() + t_.burst.raw();
            if (request.write) {
                writes_.push_back({data, request.core});
            } else {
                const std::int64_t there = data + config_.path.raw();
                latency_ += there - request.issued;
                reads_.push_back({there, request.core});
            }
            // Whether the row is still wanted is asked before others enter the window.
            bool more = false;
            for (const Request* other : window(channel)) {
                more |= other != found && other->bank == request.bank && other->row == request.row;
            }
            if (config_.policy == RowPolicy::closed && !more) bank.closes_itself = true;
            std::erase_if(channel.requests,
                          [&](const Request& other) { return other.number == request.number; });
            return;
        }
    }

    [[nodiscard]] bool may_precharge(const Bank& bank) const {
        return now_ >= bank.last_act + t_.tRAS.raw() && now_ >= bank.last_cas[0] + t_.tRTP.raw() &&
               now_ >= bank.last_cas[1] + (t_.CWL + t_.burst + t_.tWR).raw();
    }

    void precharge_all(Channel& channel) {
        for (std::size_t number = 0; number < channel.banks.size(); ++number) {
            Bank& bank = channel.banks[number];
            if (!bank.open || !may_precharge(bank)) continue;
            const bool refreshing = channel.ranks[bank.rank].refreshing;
            const bool conflict = !bank.closes_itself && !refreshing &&
                                  !wants(channel, number, true) && wants(channel, number, false);
            if (!refreshing && !bank.closes_itself && !conflict) continue;
            bank.closed_for_another = conflict;
            bank.open = std::nullopt;
            bank.closes_itself = false;
            bank.last_pre = now_;
        }
    }

    DramConfig config_;
    DramTimings t_;
    std::int64_t tick_, now_ = 0, latency_ = 0;
    std::size_t ranks_, groups_, banks_;
    std::vector<Channel> channels_;
    std::vector<std::span<const std::uint64_t>> cores_;
    std::deque<Return> reads_, writes_;
};

}  // namespace pagelens::reference
