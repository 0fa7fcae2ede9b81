// Tiers of memory written as plainly as the kernel's own code says it (kernel/sched/fair.c and
// mm/vmscan.c, 6.12): maps by address, and a sort of all pages for each shortage. What
// core/replay/memory_tiers must equal, event for event.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/frames/placement.hpp"
#include "core/replay/memory_tiers.hpp"

namespace pagelens::reference {

// The memory of a few nodes as numbers of free frames. Each node has one mark: requests that spare
// frames stop there, and kswapd begins there and goes up to twice as many.
struct Room {
    std::vector<std::uint32_t> free = {};  // [node]
    std::uint32_t mark = 0;
    std::uint32_t spared_as = 1;  // how many frames a frame above the mark counts as

    // Takes a frame of the first node that has one, from `home` on.
    std::optional<unsigned> take(std::uint64_t nodes, unsigned home, bool sparing) {
        for (unsigned step = 0; step < free.size(); ++step) {
            const unsigned node = (home + step) % static_cast<unsigned>(free.size());
            if ((nodes >> node & 1) == 0 || free[node] <= (sparing ? mark : 0)) continue;
            --free[node];
            return node;
        }
        return std::nullopt;
    }
    [[nodiscard]] std::uint32_t missing(unsigned node) const {
        return 2 * mark > free[node] ? 2 * mark - free[node] : 0;
    }
    [[nodiscard]] std::uint32_t spare(unsigned node) const {
        return free[node] > 2 * mark ? (free[node] - 2 * mark) * spared_as : 0;
    }
};

// The same memory as frames. Node n has the frames from n * per_node on, and CPU n is its own.
class RoomPlacement : public Placement {
  public:
    RoomPlacement(Room room, std::uint32_t per_node)
        : room_(std::move(room)), per_node_(per_node) {}
    [[nodiscard]] std::uint32_t frames() const override {
        return per_node_ * static_cast<std::uint32_t>(room_.free.size());
    }
    [[nodiscard]] std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<Source>(room_, per_node_);
    }

  private:
    class Source : public FrameSource {
      public:
        Source(Room room, std::uint32_t per_node) : room_(std::move(room)), per_node_(per_node) {
            stacks_.resize(room_.free.size());
            for (std::uint32_t node = 0; node < stacks_.size(); ++node)
                for (std::uint32_t i = 0; i < room_.free[node]; ++i)
                    stacks_[node].push_back(node * per_node + i);
        }
        MaybeFrame alloc(const Request& request) override {
            const unsigned home = request.home == own_numa ? request.cpu : request.home;
            const auto node = room_.take(request.numas, home, request.sparing);
            if (!node) return std::nullopt;
            const std::uint32_t frame = stacks_[*node].back();
            stacks_[*node].pop_back();
            return Frame(frame);
        }
        void free(const Request&, Frame frame) override {
            const std::uint32_t node = frame.raw() / per_node_;
            stacks_[node].push_back(frame.raw());
            ++room_.free[node];
        }
        std::uint32_t make_room(unsigned node, std::uint64_t) override {
            return room_.missing(node);
        }
        [[nodiscard]] std::uint32_t spare_frames(unsigned node) const override {
            return room_.spare(node);
        }

      private:
        Room room_;
        std::uint32_t per_node_;
        std::vector<std::vector<std::uint32_t>> stacks_;  // [node] free frames
    };

    Room room_;
    std::uint32_t per_node_;
};

struct TierEvent {
    std::size_t before;  // the op of the program
    std::uint32_t page;
    unsigned thread;
    std::uint64_t what;  // as HintFault says
    bool operator==(const TierEvent&) const = default;
};

class Tiers {
  public:
    Tiers(const Program& program, Room room, MemoryTiers rules)
        : program_(program), room_(std::move(room)), rules_(std::move(rules)) {}

    std::vector<TierEvent> events(const std::vector<Op>& ops) {
        for (at_ = 0; at_ < ops.size(); ++at_) step(ops[at_]);
        return std::move(events_);
    }

  private:
    using Address = std::uint64_t;
    struct Page {
        std::uint32_t number = 0;
        std::vector<unsigned> node;  // [rank]
        double used = 0;
        std::optional<double> hidden;
    };
    struct Process {
        std::optional<double> next_scan;
        double period = 0;
        Address offset = 0;
        unsigned sequence = 0, seen = 0;
    };
    struct Node {
        std::optional<double> threshold;  // if it has been adapted
        double th_start = 0, rl_start = 0;
        std::uint64_t candidates = 0, th_candidates = 0, rl_candidates = 0;
    };

    [[nodiscard]] Address address(std::uint32_t page) const { return program_.pages()[page].raw(); }
    [[nodiscard]] static Address space(Address address) { return address >> space_shift; }
    [[nodiscard]] unsigned node_of(std::uint32_t rank, unsigned thread) const {
        return rules_.numa->node_of_cpu[rules_.numa->cpus[rank * program_.threads() + thread]];
    }
    [[nodiscard]] bool is_slow(unsigned node) const {
        return (rules_.numa->slow_nodes >> node & 1) != 0;
    }

    void step(const Op& op) {
        switch (op.kind()) {
            case OpKind::phase:
                phase_ = op.page;
                break;
            case OpKind::map_write:
                write(op);
                break;
            case OpKind::map_read:
                if (own_.contains(address(op.page)) || !shows_.insert(op.page).second) break;
                if (cached_.insert(op.lines).second)
                    room_.take(~0ull, node_of(0, op.thread), false);
                break;
            case OpKind::unmap:
                for (std::uint32_t page = op.page; page < op.page + op.lines; ++page) {
                    shows_.erase(page);
                    const auto found = own_.find(address(page));
                    if (found == own_.end()) continue;
                    for (const unsigned node : found->second.node) ++room_.free[node];
                    own_.erase(found);
                }
                break;
            case OpKind::write_back:
                pass(op);
                break;
            default:
                if (op.kind() != OpKind::touch) pass(op);
                use(op);
        }
    }

    void pass(const Op& op) { now_ += rules_.line_s[phase_] * std::popcount(op.lines); }

    void write(const Op& op) {
        Page& page = own_[address(op.page)];
        if (!page.node.empty()) return;
        shows_.erase(op.page);
        page.number = op.page;
        page.used = now_;
        for (std::uint32_t rank = 0; rank < rules_.ranks; ++rank)
            page.node.push_back(*room_.take(~0ull, node_of(rank, op.thread), false));
    }

    void use(const Op& op) {
        Process& process = processes_[space(address(op.page))];
        if (now_ >= process.next_scan.value_or(rules_.scan_delay_s))
            scan(process, space(address(op.page)));
        const auto found = own_.find(address(op.page));
        if (found == own_.end()) return;
        Page& page = found->second;
        page.used = now_;
        if (!page.hidden) return;
        const double latency = now_ - *page.hidden;
        page.hidden.reset();
        const bool hot = is_hot(page, op.thread, latency);
        events_.push_back({at_, op.page, op.thread, hot ? HintFault::is_hot : HintFault::is_cold});
        if (hot && promote(page, op.thread)) placement(process, space(address(op.page)));
    }

    // task_numa_work()
    void scan(Process& process, Address space_number) {
        if (process.period == 0) process.period = least(space_number);
        process.next_scan = now_ + process.period;
        const Address begin = space_number << space_shift, end = (space_number + 1) << space_shift;
        // Ranges that the program ever maps, as its pages; the kernel has its VMAs.
        std::set<Address> mapped;
        for (const VirtualPage page : program_.pages())
            if (page.raw() >= begin && page.raw() < end) mapped.insert(page.raw());
        auto next = mapped.lower_bound(std::max(process.offset, begin));
        if (next == mapped.end()) {
            ++process.sequence;
            next = mapped.begin();
        }
        for (int chunk = 0; chunk < 8; ++chunk) {
            bool updates = false;
            for (std::uint32_t pages = 0; pages < rules_.scan_pages; ++next) {
                if (next == mapped.end()) {
                    process.offset = 0;
                    ++process.sequence;
                    return;
                }
                const auto found = own_.find(*next);
                if (found == own_.end()) continue;
                ++pages;
                Page& page = found->second;
                if (page.hidden ||
                    !std::ranges::any_of(page.node, [&](unsigned node) { return is_slow(node); }))
                    continue;
                page.hidden = now_;
                updates = true;
            }
            process.offset = next == mapped.end() ? end : *next;
            if (updates) return;
        }
    }

    // should_numa_migrate_memory(), to the node of the first rank with a page to promote
    bool is_hot(const Page& page, unsigned thread, double latency) {
        std::uint64_t slow = 0;
        unsigned to = node_of(rules_.ranks - 1, thread);
        for (std::uint32_t rank = rules_.ranks; rank-- > 0;) {
            if (!is_slow(page.node[rank])) continue;
            to = node_of(rank, thread);
            ++slow;
        }
        Node& node = nodes_[to];
        const std::uint32_t ends_before = to == 0 ? 0 : rules_.numa->end_of_node[to - 1];
        const std::uint32_t present = rules_.numa->end_of_node[to] - ends_before;
        if (room_.spare(to) >= std::max(262144u, present / 16)) {
            node.threshold.reset();
            return true;
        }
        adjust(node);
        if (latency >= node.threshold.value_or(rules_.hot_s)) return false;
        node.candidates += slow;
        if (now_ - node.rl_start > 1) {
            node.rl_start = now_;
            node.rl_candidates = node.candidates;
        }
        return static_cast<double>(node.candidates - node.rl_candidates) < rules_.pages_a_second;
    }

    // numa_promotion_adjust_threshold()
    void adjust(Node& node) {
        if (now_ - node.th_start <= rules_.most_period_s) return;
        node.th_start = now_;
        const double reference = rules_.pages_a_second * rules_.most_period_s;
        const auto found = static_cast<double>(node.candidates - node.th_candidates);
        const double unit = rules_.hot_s * 2 / 16,
                     threshold = node.threshold.value_or(rules_.hot_s);
        node.threshold = threshold;
        if (found > reference * 1.1) node.threshold = std::max(threshold - unit, unit);
        if (found < reference * 0.9) node.threshold = std::min(threshold + unit, rules_.hot_s * 2);
        node.th_candidates = node.candidates;
    }

    bool promote(Page& page, unsigned thread) {
        bool any = false;
        std::vector<std::pair<unsigned, std::uint32_t>> short_of;
        std::set<unsigned> full;
        for (std::uint32_t rank = 0; rank < rules_.ranks; ++rank) {
            if (!is_slow(page.node[rank])) continue;
            const unsigned to = node_of(rank, thread);
            if (room_.take(1ull << to, to, true)) {
                ++room_.free[std::exchange(page.node[rank], to)];
                any = true;
            } else if (full.insert(to).second && room_.missing(to) > 0) {
                short_of.emplace_back(to, room_.missing(to));
            }
        }
        for (const auto& [node, frames] : short_of) demote(node, frames);
        return any;
    }

    // kswapd: what was used longest ago goes.
    void demote(unsigned node, std::uint32_t frames) {
        std::vector<Page*> pages;
        for (auto& [at, page] : own_)
            if (std::ranges::count(page.node, node) > 0) pages.push_back(&page);
        std::ranges::sort(pages, {},
                          [](const Page* page) { return std::tuple(page->used, page->number); });
        for (Page* const page : pages) {
            std::uint32_t moved = 0;
            for (unsigned& of_rank : page->node) {
                if (of_rank != node) continue;
                const auto to = room_.take(rules_.numa->slow_nodes, node, true);
                if (!to) continue;
                ++room_.free[std::exchange(of_rank, *to)];
                ++moved;
            }
            if (moved == 0) return;
            events_.push_back({at_, page->number, 0, HintFault::demoted + node});
            if (moved >= frames) return;
            frames -= moved;
        }
    }

    // task_numa_placement() and update_task_scan_period()
    void placement(Process& process, Address space_number) {
        if (std::exchange(process.seen, process.sequence) == process.sequence) return;
        const double most =
            std::max(least(space_number), rules_.most_period_s / windows(space_number));
        process.period = std::min(most, process.period * 2);
        process.next_scan = now_ + process.period;
    }

    double windows(Address space_number) {
        const auto resident = static_cast<std::uint64_t>(std::ranges::count_if(
            own_, [&](const auto& of) { return space(of.first) == space_number; }));
        return static_cast<double>(
            std::max<std::uint64_t>(1, (resident + rules_.scan_pages - 1) / rules_.scan_pages));
    }
    double least(Address space_number) {
        return std::max(0.1, rules_.least_period_s / windows(space_number));
    }

    const Program& program_;
    Room room_;
    MemoryTiers rules_;
    std::map<Address, Page> own_;     // pages that the ranks have of their own
    std::set<std::uint32_t> shows_;   // pages that show a file
    std::set<std::uint64_t> cached_;  // pages of that
    std::map<Address, Process> processes_;
    std::map<unsigned, Node> nodes_;
    std::vector<TierEvent> events_;
    std::size_t at_ = 0;
    unsigned phase_ = 0;
    double now_ = 0;
};

}  // namespace pagelens::reference
