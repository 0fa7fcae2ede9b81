#include "core/replay/numa_balancing.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/accesses/program_around.hpp"

namespace pagelens {
namespace balancing {  // words of the kernel, some of which others use, too
namespace {

constexpr unsigned early_passes = 4;  // should_numa_migrate_memory(): the first ones move at once
constexpr std::int64_t active_nodes = 3;           // ACTIVE_NODE_FRACTION
constexpr std::int64_t slots = 10, threshold = 7;  // NUMA_PERIOD_SLOTS, NUMA_PERIOD_THRESHOLD
constexpr double most_scans_of_second = 10;        // MAX_SCAN_WINDOW: 2560 MB/s in scans of 256 MB
constexpr std::int64_t full_time = 1 << 16;        // the weight of a thread that always runs
constexpr std::uint16_t nobody = 0xffff;

// Faults by node, shared ones and private ones apart: [2 * node + is_private].
using Faults = std::vector<std::int64_t>;

std::int64_t on_node(const Faults& faults, unsigned node) {
    return faults[2 * node] + faults[2 * node + 1];
}

struct Thread {
    Faults memory, cpu;          // of passes before, the older the less: by node of page and thread
    Faults memory_now, cpu_now;  // of this pass
    std::int64_t local = 0, remote = 0;
    double period_s = 0;   // until the next scan; 0: not known yet
    unsigned passes = 0;   // that it has taken into account
    bool prefers = false;  // a node: it has taken faults into account
    bool in_group = false;
};

// The threads of a process that have met on a page.
struct Group {
    Faults memory, cpu;
    std::int64_t threads = 0;
    std::int64_t most_cpu = 0, active = 1;  // faults on the node with most; nodes near to that
};

struct Process {
    std::vector<std::uint32_t> pages;  // by address
    std::size_t next = 0;              // where the next scan begins
    std::uint64_t resident = 0;
    unsigned passes = 0;
    std::uint32_t threads = 0;
    double scan_at_s = 0;
    Group group;
};

struct Page {
    std::uint16_t last = nobody;  // thread that met a fault here
    std::uint8_t last_node = 0, node = 0;
    bool resident = false, hidden = false;
};

class Balancer {
  public:
    Balancer(const Program& program, const NumaBalancing& rules)
        : program_(program),
          rules_(rules),
          nodes_(1u + *std::ranges::max_element(rules.node_of_thread)),
          pages_(program.pages().size()),
          processes_(program.spaces()),
          threads_(program.threads()),
          process_of_(program.threads(), none) {
        const Faults no_faults(2 * std::size_t{nodes_});
        for (Thread& thread : threads_)
            thread.memory = thread.cpu = thread.memory_now = thread.cpu_now = no_faults;
        for (Process& process : processes_) {
            process.group.memory = process.group.cpu = no_faults;
            process.scan_at_s = rules.scan_delay_s;
        }
        std::vector<std::uint32_t> by_address(pages_.size());
        std::iota(by_address.begin(), by_address.end(), 0u);
        std::ranges::stable_sort(by_address, {},
                                 [&](std::uint32_t page) { return program.pages()[page].raw(); });
        for (const std::uint32_t page : by_address) process_with(page).pages.push_back(page);
    }

    // Keeps up with the program. Returns whether a fault comes before the op, and if the page
    // moves.
    enum class Met : std::uint8_t { nothing, fault, move };
    Met step(const Op& op) {
        switch (op.kind()) {
            case OpKind::phase:
                phase_ = op.page;
                return Met::nothing;
            case OpKind::map_write:
                map(op);
                return Met::nothing;
            case OpKind::unmap:
                for (std::uint64_t page = op.page; page < op.page + op.lines; ++page) {
                    if (std::exchange(pages_[page].resident, false))
                        --process_with(static_cast<std::uint32_t>(page)).resident;
                    pages_[page].hidden = false;
                }
                return Met::nothing;
            case OpKind::fetch:
            case OpKind::stream_store:
                now_s_ += rules_.line_s[phase_] * std::popcount(op.lines);
                return use(op);
            case OpKind::touch:
                return use(op);
            case OpKind::write_back:  // by the cache, not by an access
                now_s_ += rules_.line_s[phase_] * std::popcount(op.lines);
                return Met::nothing;
            default:
                return Met::nothing;
        }
    }

  private:
    static constexpr std::uint32_t none = ~0u;

    Process& process_with(std::uint32_t page) {
        return processes_[program_.spaces() == 1 ? 0 : program_.pages()[page].raw() >> space_shift];
    }

    // The process of the thread: that of the first page that it uses. Others' pages are files'.
    Process& process_of(unsigned thread, std::uint32_t page) {
        if (process_of_[thread] == none) {
            process_of_[thread] = static_cast<std::uint32_t>(&process_with(page) - &processes_[0]);
            ++processes_[process_of_[thread]].threads;
        }
        return processes_[process_of_[thread]];
    }

    void map(const Op& op) {
        process_of(op.thread, op.page);
        Page& page = pages_[op.page];
        if (page.resident) return;
        page = {.node = rules_.node_of_thread[op.thread], .resident = true};
        ++process_with(op.page).resident;
    }

    Met use(const Op& op) {
        Process& process = process_of(op.thread, op.page);
        if (now_s_ >= process.scan_at_s) scan(process, op.thread);
        Page& page = pages_[op.page];
        if (!page.hidden) return Met::nothing;
        page.hidden = false;
        return fault(process, page, op.thread) ? Met::move : Met::fault;
    }

    // task_numa_work(): takes away the access to the next pages. A process of one thread keeps it
    // to those that lie on its node already.
    void scan(Process& process, unsigned by) {
        Thread& thread = threads_[by];
        if (thread.period_s == 0) thread.period_s = first_period(process, thread);
        process.scan_at_s = now_s_ + thread.period_s;
        const bool alone = process.threads == 1;
        std::uint32_t left = rules_.scan_pages;
        for (; process.next < process.pages.size(); ++process.next) {
            Page& page = pages_[process.pages[process.next]];
            if (!page.resident) continue;
            if (left == 0) return;
            --left;
            page.hidden |= !alone || page.node != rules_.node_of_thread[by];
        }
        process.next = 0;
        ++process.passes;
    }

    // do_numa_page(): returns whether the page moves to the node of the thread.
    bool fault(Process& process, Page& page, unsigned by) {
        const unsigned to = rules_.node_of_thread[by], from = page.node;
        const bool moves = should_move(process, page, by) && to != from;
        const bool is_private = page.last == nobody || page.last == by;
        page.last = static_cast<std::uint16_t>(by);
        page.last_node = static_cast<std::uint8_t>(to);
        page.node = static_cast<std::uint8_t>(moves ? to : from);
        count(process, by,
              {.page_node = page.node, .was_local = to == from, .is_private = is_private});
        return moves;
    }

    // should_numa_migrate_memory()
    [[nodiscard]] bool should_move(const Process& process, const Page& page, unsigned by) const {
        const Thread& thread = threads_[by];
        const unsigned to = rules_.node_of_thread[by], from = page.node;
        const bool is_new = page.last == nobody, is_own = page.last == by;
        if ((!thread.prefers || thread.passes <= early_passes) && (is_new || is_own)) return true;
        if (!is_new && page.last_node != to) return false;
        if (is_own || !thread.in_group) return true;
        const Group& group = process.group;
        const std::int64_t cpu_to = on_node(group.cpu, to), cpu_from = on_node(group.cpu, from);
        if (cpu_to > cpu_from * active_nodes) return true;
        return cpu_to * on_node(group.memory, from) * 3 > cpu_from * on_node(group.memory, to) * 4;
    }

    struct Fault {
        unsigned page_node;
        bool was_local, is_private;
    };

    // task_numa_fault()
    void count(Process& process, unsigned by, Fault met) {
        Thread& thread = threads_[by];
        Group& group = process.group;
        if (!met.is_private && !thread.in_group) {  // task_numa_group()
            thread.in_group = true;
            ++group.threads;
            add(group.memory, thread.memory);
            add(group.cpu, thread.cpu);
        }
        const unsigned node = rules_.node_of_thread[by];
        const bool settled = !met.is_private && group.active > 1 && is_active(group, node) &&
                             is_active(group, met.page_node);
        if (thread.passes != process.passes) take_into_account(process, thread);
        ++thread.memory_now[2 * met.page_node + (met.is_private ? 1 : 0)];
        ++thread.cpu_now[2 * node + (met.is_private ? 1 : 0)];
        ++(met.was_local || settled ? thread.local : thread.remote);
    }

    // task_numa_placement(), of a thread that always runs
    void take_into_account(Process& process, Thread& thread) {
        thread.passes = process.passes;
        const std::int64_t all = thread.local + thread.remote;
        Group& group = process.group;
        std::int64_t found[2] = {0, 0};
        bool some = false;
        for (std::size_t i = 0; i < thread.memory.size(); ++i) {
            const std::int64_t memory = thread.memory_now[i] - thread.memory[i] / 2;
            const std::int64_t cpu = full_time * thread.cpu_now[i] / (all + 1) - thread.cpu[i] / 2;
            found[i % 2] += thread.memory_now[i];
            thread.memory_now[i] = thread.cpu_now[i] = 0;
            thread.memory[i] += memory;
            thread.cpu[i] += cpu;
            if (thread.in_group) {
                group.memory[i] += memory;
                group.cpu[i] += cpu;
            }
            some |= (thread.in_group ? group.memory : thread.memory)[i] > 0;
        }
        if (thread.in_group) find_active(group);
        thread.prefers |= some;
        adapt_period(process, thread, found[0], found[1]);
    }

    void find_active(Group& group) const {
        group.most_cpu = group.active = 0;
        for (unsigned node = 0; node < nodes_; ++node)
            group.most_cpu = std::max(group.most_cpu, on_node(group.cpu, node));
        for (unsigned node = 0; node < nodes_; ++node) group.active += is_active(group, node);
    }
    static bool is_active(const Group& group, unsigned node) {
        return on_node(group.cpu, node) * active_nodes > group.most_cpu;
    }

    // update_task_scan_period()
    void adapt_period(Process& process, Thread& thread, std::int64_t shared, std::int64_t own) {
        const double most = most_period(process, thread);
        if (thread.period_s == 0) thread.period_s = first_period(process, thread);
        if (thread.local + shared == 0) {
            thread.period_s = std::min(most, 2 * thread.period_s);
            process.scan_at_s = now_s_ + thread.period_s;
            thread.local = thread.remote = 0;
            return;
        }
        const std::int64_t all = thread.local + thread.remote;
        const std::int64_t local = all == 0 ? 0 : thread.local * slots / all;
        const std::int64_t of_own = own + shared == 0 ? 0 : own * slots / (own + shared);
        std::int64_t steps = std::max(local, of_own) - threshold;
        if (of_own >= threshold) {
            steps = std::max<std::int64_t>(of_own - threshold, 1);
        } else if (local >= threshold) {
            steps = std::max<std::int64_t>(local - threshold, 1);
        }
        const double slot = thread.period_s / slots;
        thread.period_s = std::clamp(thread.period_s + static_cast<double>(steps) * slot,
                                     least_period(process), most);
        thread.local = thread.remote = 0;
    }

    // task_scan_min(), task_scan_start() and task_scan_max()
    [[nodiscard]] double windows(const Process& process) const {
        const std::uint64_t scans = (process.resident + rules_.scan_pages - 1) / rules_.scan_pages;
        return static_cast<double>(std::max<std::uint64_t>(scans, 1));
    }
    [[nodiscard]] double least_period(const Process& process) const {
        return std::max(1 / most_scans_of_second, rules_.least_period_s / windows(process));
    }
    [[nodiscard]] double first_period(const Process& process, const Thread& thread) const {
        const double least = least_period(process);
        return std::max(least, by_sharing(process, thread, least));
    }
    [[nodiscard]] double most_period(const Process& process, const Thread& thread) const {
        const double most = rules_.most_period_s / windows(process);
        return std::max({least_period(process), most, by_sharing(process, thread, most)});
    }
    // The more of a group's faults are shared, the longer each of its threads waits.
    static double by_sharing(const Process& process, const Thread& thread, double period) {
        if (!thread.in_group) return period;
        double shared = 1, all = 1;
        for (std::size_t i = 0; i < process.group.memory.size(); ++i) {
            const auto faults = static_cast<double>(process.group.memory[i]);
            all += faults;
            if (i % 2 == 0) shared += faults;
        }
        return period * static_cast<double>(process.group.threads) * shared / all;
    }

    static void add(Faults& to, const Faults& what) {
        std::ranges::transform(to, what, to.begin(), std::plus<>());
    }

    const Program& program_;
    const NumaBalancing& rules_;
    unsigned nodes_;
    std::vector<Page> pages_;
    std::vector<Process> processes_;
    std::vector<Thread> threads_;
    std::vector<std::uint32_t> process_of_;  // [thread]
    unsigned phase_ = 0;
    double now_s_ = 0;
};

class BalancedProgram final : public ProgramAround {
  public:
    BalancedProgram(std::shared_ptr<const Program> program, NumaBalancing rules)
        : ProgramAround(std::move(program)), rules_(std::move(rules)) {
        if (rules_.node_of_thread.size() != threads() || rules_.line_s.size() != phases())
            throw std::invalid_argument(
                "balancing: needs a node for each thread and a time for each phase");
        if (rules_.scan_pages == 0 || !(rules_.least_period_s > 0) ||
            !(rules_.most_period_s >= rules_.least_period_s))
            throw std::invalid_argument("balancing: pages and periods are above 0");
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        auto balance = [balancer = Balancer(inner(), rules_)](const Op& op,
                                                              std::vector<Op>& batch) mutable {
            const Balancer::Met met = balancer.step(op);
            if (met == Balancer::Met::nothing) return;
            const std::uint64_t moves = met == Balancer::Met::move ? 1 : 0;
            batch.push_back(make_op(OpKind::hint_fault, op.page, moves, op.object, op.thread));
        };
        return std::make_unique<CursorAround<decltype(balance)>>(inner(), balance);
    }

  private:
    NumaBalancing rules_;
};

}  // namespace
}  // namespace balancing

std::unique_ptr<Program> with_numa_balancing(std::shared_ptr<const Program> program,
                                             NumaBalancing balancing) {
    return std::make_unique<balancing::BalancedProgram>(std::move(program), std::move(balancing));
}

}  // namespace pagelens
