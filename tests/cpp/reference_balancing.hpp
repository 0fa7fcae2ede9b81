// NUMA balancing written as plainly as the kernel's own code says it (kernel/sched/fair.c, 6.12):
// one process, one page after the other, maps by the kernel's names. What
// core/replay/numa_balancing must equal, fault for fault.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/replay/numa_balancing.hpp"

namespace pagelens::reference {

class Balancing {
  public:
    explicit Balancing(NumaBalancing rules) : rules_(std::move(rules)) {}

    void map(std::uint64_t address, unsigned task) {
        tasks_.insert(task);
        if (!node_.contains(address)) node_[address] = node_of(task);
    }
    void unmap(std::uint64_t address) {
        node_.erase(address);
        hidden_.erase(address);
        last_.erase(address);
    }
    void pass(double seconds) { now_ += seconds; }
    // Returns -1 without a fault, 0 for one, 1 if the page moves.
    int use(std::uint64_t address, unsigned task) {
        tasks_.insert(task);
        if (now_ >= next_scan_) scan(task);
        if (hidden_.erase(address) == 0) return -1;
        const unsigned to = node_of(task), from = node_[address];
        const bool fresh = !last_.contains(address);
        const auto [last_task, last_node] = fresh ? std::pair(~0u, 0u) : last_[address];
        const bool moves = should(task, fresh, last_task, last_node, from, to) && from != to;
        last_[address] = {task, to};
        if (moves) node_[address] = to;
        fault(task, fresh || last_task == task, node_[address], from == to);
        return moves ? 1 : 0;
    }

  private:
    using Key = std::pair<unsigned, bool>;  // node, private
    using Sums = std::map<Key, std::int64_t>;

    [[nodiscard]] unsigned node_of(unsigned task) const { return rules_.node_of_thread[task]; }
    [[nodiscard]] unsigned nodes() const {
        return 1u + *std::ranges::max_element(rules_.node_of_thread);
    }
    static std::int64_t both(Sums& sums, unsigned node) {
        return sums[{node, false}] + sums[{node, true}];
    }

    void scan(unsigned task) {
        if (!period_.contains(task)) period_[task] = start(task);
        next_scan_ = now_ + period_[task];
        unsigned seen = 0;
        for (const auto& [address, node] : node_) {
            if (address < offset_) continue;
            if (seen == rules_.scan_pages) {
                offset_ = address;
                return;
            }
            ++seen;
            if (tasks_.size() > 1 || node != node_of(task)) hidden_.insert(address);
        }
        offset_ = 0;
        ++sequence_;
    }

    bool should(unsigned task, bool fresh, unsigned last_task, unsigned last_node, unsigned from,
                unsigned to) {
        if ((!preferred_.contains(task) || sequence_of_[task] <= 4) && (fresh || last_task == task))
            return true;
        if (!fresh && last_node != to) return false;
        if (last_task == task) return true;
        if (!group_.contains(task)) return true;
        if (both(group_cpu_, to) > both(group_cpu_, from) * 3) return true;
        return both(group_cpu_, to) * both(group_mem_, from) * 3 >
               both(group_cpu_, from) * both(group_mem_, to) * 4;
    }

    void fault(unsigned task, bool priv, unsigned mem_node, bool local) {
        if (!priv && group_.insert(task).second) {
            for (auto& [key, count] : mem_[task]) group_mem_[key] += count;
            for (auto& [key, count] : cpu_[task]) group_cpu_[key] += count;
        }
        if (!priv && active_nodes_ > 1 && active(node_of(task)) && active(mem_node)) local = true;
        if (sequence_of_[task] != sequence_) placement(task);
        ++membuf_[task][{mem_node, priv}];
        ++cpubuf_[task][{node_of(task), priv}];
        ++locality_[task][local];
    }

    void placement(unsigned task) {
        sequence_of_[task] = sequence_;
        const std::int64_t total = locality_[task][false] + locality_[task][true];
        std::map<bool, std::int64_t> types;
        bool any = false;
        for (unsigned node = 0; node < nodes(); ++node) {
            for (const bool priv : {false, true}) {
                const Key key{node, priv};
                const std::int64_t diff = membuf_[task][key] - mem_[task][key] / 2;
                types[priv] += std::exchange(membuf_[task][key], 0);
                const std::int64_t weight =
                    65536 * std::exchange(cpubuf_[task][key], 0) / (total + 1);
                const std::int64_t f_diff = weight - cpu_[task][key] / 2;
                mem_[task][key] += diff;
                cpu_[task][key] += f_diff;
                if (group_.contains(task)) {
                    group_mem_[key] += diff;
                    group_cpu_[key] += f_diff;
                }
            }
            any |= both(group_.contains(task) ? group_mem_ : mem_[task], node) > 0;
        }
        if (group_.contains(task)) {
            max_faults_cpu_ = 0;
            for (unsigned node = 0; node < nodes(); ++node)
                max_faults_cpu_ = std::max(max_faults_cpu_, both(group_cpu_, node));
            active_nodes_ = 0;
            for (unsigned node = 0; node < nodes(); ++node) active_nodes_ += active(node);
        }
        if (any) preferred_.insert(task);
        period(task, types[false], types[true]);
    }

    void period(unsigned task, std::int64_t shared, std::int64_t priv) {
        const std::int64_t remote = locality_[task][false], local = locality_[task][true];
        if (!period_.contains(task)) period_[task] = start(task);
        if (local + shared == 0) {
            period_[task] = std::min(max(task), period_[task] * 2);
            next_scan_ = now_ + period_[task];
            locality_[task].clear();
            return;
        }
        const std::int64_t lr = local + remote ? local * 10 / (local + remote) : 0;
        const std::int64_t ps = priv + shared ? priv * 10 / (priv + shared) : 0;
        std::int64_t steps = 0;
        if (ps >= 7)
            steps = ps == 7 ? 1 : ps - 7;
        else if (lr >= 7)
            steps = lr == 7 ? 1 : lr - 7;
        else
            steps = -(7 - std::max(lr, ps));
        const double slot = period_[task] / 10;
        period_[task] =
            std::min(max(task), std::max(min(), period_[task] + static_cast<double>(steps) * slot));
        locality_[task].clear();
    }

    bool active(unsigned node) { return both(group_cpu_, node) * 3 > max_faults_cpu_; }

    double windows() {
        const std::size_t scans = (node_.size() + rules_.scan_pages - 1) / rules_.scan_pages;
        return scans == 0 ? 1 : static_cast<double>(scans);
    }
    double min() { return std::max(0.1, rules_.least_period_s / windows()); }
    double scaled(unsigned task, double period) {
        if (!group_.contains(task)) return period;
        double shared = 1, all = 1;
        for (auto& [key, count] : group_mem_) {
            all += static_cast<double>(count);
            if (!key.second) shared += static_cast<double>(count);
        }
        return period * static_cast<double>(group_.size()) * shared / all;
    }
    double start(unsigned task) { return std::max(min(), scaled(task, min())); }
    double max(unsigned task) {
        const double most = rules_.most_period_s / windows();
        return std::max({min(), most, scaled(task, most)});
    }

    NumaBalancing rules_;
    double now_ = 0, next_scan_ = rules_.scan_delay_s;
    std::uint64_t offset_ = 0;
    unsigned sequence_ = 0;
    std::map<std::uint64_t, unsigned> node_;  // [address] of pages that are resident
    std::set<std::uint64_t> hidden_;
    std::map<std::uint64_t, std::pair<unsigned, unsigned>> last_;  // task, node
    std::set<unsigned> tasks_, group_, preferred_;
    std::map<unsigned, unsigned> sequence_of_;
    std::map<unsigned, double> period_;
    std::map<unsigned, Sums> mem_, cpu_, membuf_, cpubuf_;
    std::map<unsigned, std::map<bool, std::int64_t>> locality_;
    Sums group_mem_, group_cpu_;
    std::int64_t max_faults_cpu_ = 0;
    unsigned active_nodes_ = 1;
};

}  // namespace pagelens::reference
