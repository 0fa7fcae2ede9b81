#include "core/replay/memory_tiers.hpp"

#include <algorithm>
#include <bit>
#include <compare>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/accesses/program_around.hpp"
#include "core/replay/rank_pages.hpp"

namespace pagelens {
namespace tiers {
namespace {

constexpr double most_scans_of_second = 10;        // MAX_SCAN_WINDOW: 2560 MB/s in scans of 256 MB
constexpr unsigned most_chunks = 8;                // task_numa_work(): where it finds no slow page
constexpr double steps = 16;                       // NUMA_MIGRATION_ADJUST_STEPS
constexpr std::uint32_t plenty_frames = 1u << 18;  // pgdat_free_space_enough(): 1 GiB
constexpr double never = -1;

struct Process {
    std::vector<std::uint32_t> pages;  // by address
    std::size_t next = 0;              // where the next scan begins
    std::uint64_t resident = 0;
    unsigned passes = 0, seen_passes = 0;  // over all pages; those that a fault has taken note of
    double scan_at_s = 0, period_s = 0;    // 0: not known yet
};

struct Page {
    double used_s = 0, hidden_s = never;  // when it was last used, and when a scan has hidden it
};

// A page as it was when the pages of its node were put in order.
struct Listed {
    double used_s = 0;
    std::uint32_t page = 0;
    auto operator<=>(const Listed&) const = default;
};

// What the kernel keeps of a node to which pages are promoted.
struct Target {
    double threshold_s = 0, adapted_s = 0, second_s = 0;
    std::uint64_t candidates = 0, when_adapted = 0, at_second = 0;
    // The node's pages, those used longest ago first, as of a time; those before `next` are gone.
    std::vector<Listed> oldest;
    std::size_t next = 0;
    double listed_s = never;
};

class Tiers {
  public:
    Tiers(const Program& program, const Placement& placement, const MemoryTiers& rules)
        : program_(program),
          rules_(rules),
          frames_(program, placement, rules.ranks, Sampling(), RankPages::Listed::covered,
                  SlotPopulation(0, 0), 0, rules.numa.get()),
          pages_(program.pages().size()),
          processes_(program.spaces()),
          targets_(rules.numa->nodes()) {
        for (Process& process : processes_) process.scan_at_s = rules.scan_delay_s;
        for (Target& target : targets_) target.threshold_s = rules.hot_s;
        std::vector<std::uint32_t> by_address(pages_.size());
        std::iota(by_address.begin(), by_address.end(), 0u);
        std::ranges::stable_sort(by_address, {},
                                 [&](std::uint32_t page) { return program.pages()[page].raw(); });
        for (const std::uint32_t page : by_address) process_with(page).pages.push_back(page);
    }

    // Keeps up with the program, and puts what comes before the op into the batch.
    void step(const Op& op, std::vector<Op>& batch) {
        switch (op.kind()) {
            case OpKind::phase:
                phase_ = op.page;
                return;
            case OpKind::map_write:
                if (frames_.writable(op.page)) return;
                ++process_with(op.page).resident;
                pages_[op.page] = {.used_s = now_s_};
                return frames_.map_write(op.page, [](auto, auto, auto) {}, op.thread);
            case OpKind::map_read:
                if (op.lines == 0 || frames_.mapped(op.page)) return;
                return frames_.map_read(op.page, static_cast<std::uint32_t>(op.lines - 1),
                                        op.thread);
            case OpKind::unmap:
                for (std::uint64_t page = op.page; page < op.page + op.lines; ++page) {
                    const auto number = static_cast<std::uint32_t>(page);
                    if (frames_.writable(number)) --process_with(number).resident;
                    pages_[page].hidden_s = never;
                }
                return frames_.unmap(op.page, op.lines);
            case OpKind::fetch:
            case OpKind::stream_store:
                now_s_ += rules_.line_s[phase_] * std::popcount(op.lines);
                return use(op, batch);
            case OpKind::touch:
                return use(op, batch);
            case OpKind::write_back:  // by the cache, not by an access
                now_s_ += rules_.line_s[phase_] * std::popcount(op.lines);
                return;
            default:
                return;
        }
    }

  private:
    Process& process_with(std::uint32_t page) {
        return processes_[program_.spaces() == 1 ? 0 : program_.pages()[page].raw() >> space_shift];
    }

    void use(const Op& op, std::vector<Op>& batch) {
        Process& process = process_with(op.page);
        if (now_s_ >= process.scan_at_s) scan(process);
        Page& page = pages_[op.page];
        page.used_s = now_s_;
        if (page.hidden_s == never) return;
        const double latency_s = now_s_ - std::exchange(page.hidden_s, never);
        const bool hot = is_hot(op, latency_s);
        batch.push_back(make_op(OpKind::hint_fault, op.page,
                                hot ? HintFault::is_hot : HintFault::is_cold, op.object,
                                op.thread));
        if (!hot) return;
        missing_.clear();
        const std::uint64_t promoted = frames_.promote(
            op.page, op.thread, [](auto, auto) {},
            [&](unsigned node, std::uint32_t frames) { missing_.emplace_back(node, frames); });
        for (const auto& [node, frames] : missing_) demote(node, frames, batch);
        if (promoted != 0) settle(process);
    }

    // task_numa_work(): hides the slow ones of the next pages.
    void scan(Process& process) {
        if (process.period_s == 0) process.period_s = least_period(process);
        process.scan_at_s = now_s_ + process.period_s;
        if (process.next == process.pages.size()) begin_pass(process);
        for (unsigned chunk = 0; chunk < most_chunks; ++chunk) {
            bool found = false;
            for (std::uint32_t left = rules_.scan_pages; left > 0; ++process.next) {
                if (process.next == process.pages.size()) return begin_pass(process);
                const std::uint32_t page = process.pages[process.next];
                if (!frames_.writable(page)) continue;
                --left;
                // change_pte_range() leaves what is hidden as it is, with the time of that.
                if (pages_[page].hidden_s != never || frames_.on_slow(page) == 0) continue;
                pages_[page].hidden_s = now_s_;
                found = true;
            }
            if (found) return;
        }
    }

    // reset_ptes_scan()
    static void begin_pass(Process& process) {
        process.next = 0;
        ++process.passes;
    }

    // should_numa_migrate_memory() for a page of a slow node
    bool is_hot(const Op& op, double latency_s) {
        const unsigned node = frames_.node_of_thread(op.page, op.thread);
        Target& target = targets_[node];
        if (frames_.spare_frames(node) >= std::max(plenty_frames, frames_of(node) / 16)) {
            target.threshold_s = rules_.hot_s;
            return true;
        }
        adapt(target);
        if (latency_s >= target.threshold_s) return false;
        target.candidates += frames_.on_slow(op.page);
        if (now_s_ - target.second_s > 1) {  // numa_promotion_rate_limit()
            target.second_s = now_s_;
            target.at_second = target.candidates;
        }
        return static_cast<double>(target.candidates - target.at_second) < rules_.pages_a_second;
    }

    // numa_promotion_adjust_threshold()
    void adapt(Target& target) {
        if (now_s_ - target.adapted_s <= rules_.most_period_s) return;
        target.adapted_s = now_s_;
        const double wanted = rules_.pages_a_second * rules_.most_period_s;
        const auto found = static_cast<double>(target.candidates - target.when_adapted);
        const double step_s = rules_.hot_s * 2 / steps;
        if (found > wanted * 1.1)
            target.threshold_s = std::max(target.threshold_s - step_s, step_s);
        else if (found < wanted * 0.9)
            target.threshold_s = std::min(target.threshold_s + step_s, 2 * rules_.hot_s);
        target.when_adapted = target.candidates;
    }

    // kswapd of the node, with nothing left in the page cache that could go
    void demote(unsigned node, std::uint32_t frames, std::vector<Op>& batch) {
        Target& target = targets_[node];
        bool renewed = false;
        for (std::size_t at = target.next;; ++at) {
            // From here on, pages that the list does not have may have been used as long ago.
            if (!renewed &&
                (at == target.oldest.size() || target.oldest[at].used_s == target.listed_s)) {
                list_oldest(node);
                renewed = true;
                at = 0;
            }
            if (at == target.oldest.size()) break;
            const std::uint32_t page = target.oldest[at].page;
            if (!is_as_listed(target.oldest[at], node)) continue;
            const std::uint64_t moved = frames_.demote(page, node, [](auto, auto) {});
            if (moved == 0) break;  // the slow nodes are full
            batch.push_back(make_op(OpKind::hint_fault, page, HintFault::demoted + node));
            if (moved >= frames) break;
            frames -= static_cast<std::uint32_t>(moved);
        }
        while (target.next < target.oldest.size() &&
               !is_as_listed(target.oldest[target.next], node))
            ++target.next;
    }

    // Puts the pages of the node in order. A page that is used or comes to the node later is
    // younger than all that are as listed, so the list serves until it has been gone through.
    void list_oldest(unsigned node) {
        Target& target = targets_[node];
        target.oldest.clear();
        for (std::uint32_t page = 0; page < pages_.size(); ++page)
            if (frames_.writable(page) && frames_.on_node(page, node) > 0)
                target.oldest.push_back({pages_[page].used_s, page});
        std::ranges::sort(target.oldest);
        target.next = 0;
        target.listed_s = now_s_;
    }
    [[nodiscard]] bool is_as_listed(const Listed& listed, unsigned node) const {
        return pages_[listed.page].used_s == listed.used_s && frames_.writable(listed.page) &&
               frames_.on_node(listed.page, node) > 0;
    }

    // task_numa_placement() after a pass. Only promotions count, and none of them as local or
    // shared, so update_task_scan_period() doubles the time to the next scan.
    void settle(Process& process) {
        if (process.seen_passes == process.passes) return;
        process.seen_passes = process.passes;
        const double most =
            std::max(least_period(process), rules_.most_period_s / windows(process));
        process.period_s = std::min(most, 2 * process.period_s);
        process.scan_at_s = now_s_ + process.period_s;
    }

    // task_scan_min()
    [[nodiscard]] double windows(const Process& process) const {
        const std::uint64_t scans = (process.resident + rules_.scan_pages - 1) / rules_.scan_pages;
        return static_cast<double>(std::max<std::uint64_t>(scans, 1));
    }
    [[nodiscard]] double least_period(const Process& process) const {
        return std::max(1 / most_scans_of_second, rules_.least_period_s / windows(process));
    }
    [[nodiscard]] std::uint32_t frames_of(unsigned node) const {
        const std::vector<std::uint32_t>& ends = rules_.numa->end_of_node;
        return ends[node] - (node == 0 ? 0 : ends[node - 1]);
    }

    const Program& program_;
    const MemoryTiers& rules_;
    RankPages frames_;
    std::vector<Page> pages_;
    std::vector<Process> processes_;
    std::vector<Target> targets_;                              // [node]
    std::vector<std::pair<unsigned, std::uint32_t>> missing_;  // nodes, and frames
    unsigned phase_ = 0;
    double now_s_ = 0;
};

class TieredProgram final : public ProgramAround {
  public:
    TieredProgram(std::shared_ptr<const Program> program,
                  std::shared_ptr<const Placement> placement, MemoryTiers rules)
        : ProgramAround(std::move(program)),
          placement_(std::move(placement)),
          rules_(std::move(rules)) {
        if (rules_.numa == nullptr || rules_.line_s.size() != phases())
            throw std::invalid_argument("tiers: needs NUMA nodes and a time for each phase");
        if (rules_.scan_pages == 0 || !(rules_.least_period_s > 0) || !(rules_.hot_s > 0) ||
            !(rules_.most_period_s >= rules_.least_period_s) || !(rules_.pages_a_second > 0))
            throw std::invalid_argument("tiers: pages, periods and rates are above 0");
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        auto tier = [tiers = std::make_unique<Tiers>(inner(), *placement_, rules_)](
                        const Op& op, std::vector<Op>& batch) { tiers->step(op, batch); };
        return std::make_unique<CursorAround<decltype(tier)>>(inner(), std::move(tier));
    }

  private:
    std::shared_ptr<const Placement> placement_;
    MemoryTiers rules_;
};

}  // namespace
}  // namespace tiers

std::unique_ptr<Program> with_memory_tiers(std::shared_ptr<const Program> program,
                                           std::shared_ptr<const Placement> placement,
                                           MemoryTiers rules) {
    return std::make_unique<tiers::TieredProgram>(std::move(program), std::move(placement),
                                                  std::move(rules));
}

}  // namespace pagelens
