// What jobs do to a node: NodeState::age and run_job.
#include <algorithm>

#include "core/frames/node_state.hpp"

namespace pagelens {
namespace {

// When a process ends, the kernel gathers its pages and frees each batch last page first
// (mmu_gather and release_pages() of Linux 6.1): entries of one gather page.
constexpr std::uint32_t gather_pages = 510;
constexpr std::uint32_t pages_a_table = 512;  // entries of a page table

// The memory of one process, as it got it.
struct Process {
    unsigned cpu = 0;
    std::vector<Run> runs;  // single pages
    std::uint64_t units = 0;
    std::vector<Frame> huge_pages, tables;

    void add(const Memmap& map, Run run) {
        units += run.units();
        if (!runs.empty() && run.count > 0) {  // neighbours in one pageblock become one run
            Run& last = runs.back();
            if (last.count > 0 && last.at(last.units()) == run.first &&
                map.pageblock_begin(last.first) == map.pageblock_begin(run.first)) {
                last.count += run.count;
                return;
            }
        }
        runs.push_back(run);
    }

    void exit(NodeState& node) {
        Memory& memory = node.memory();
        for (const Frame page : huge_pages) memory.free(cpu, page, huge_order);
        const std::uint32_t batch = std::max(1u, gather_pages / memory.grain());
        std::uint32_t room = batch;
        std::vector<Run> gathered;
        const auto flush = [&] {
            for (; !gathered.empty(); gathered.pop_back()) {
                memory.free_run(cpu, gathered.back().reversed());
            }
            room = batch;
        };
        for (Run run : runs) {
            while (run.count != 0) {
                gathered.push_back(run.split(std::min(room, run.units())));
                room -= gathered.back().units();
                if (room == 0) flush();
            }
        }
        flush();
        for (const Frame table : tables) memory.free(cpu, table, small_order);
    }
};

}  // namespace

void NodeState::age(std::uint32_t jobs, const JobMix& mix, Random& random) {
    std::vector<double> sizes(jobs);  // drawn first: they are the same at every grain
    for (double& size : sizes) {
        size = random.log_uniform(mix.smallest_job_frames, mix.largest_job_frames);
    }
    for (const double size : sizes) run_job(size, mix, random);
}

void NodeState::run_job(double job_frames, const JobMix& mix, Random& random) {
    const std::uint32_t grain = memory_.grain();
    const auto wanted = static_cast<std::uint64_t>(job_frames);
    const auto kept_free = static_cast<std::uint64_t>(mix.kept_free_share * memory_.frames());
    std::vector<Process> processes(mix.processes);
    for (std::uint32_t p = 0; p < mix.processes; ++p) processes[p].cpu = p % memory_.cpus();
    std::uint64_t got = 0;
    // Some of the `most` frames that the process touches next; false if there is no memory.
    const auto touch = [&](Process& process, std::uint64_t most) {
        if (mix.huge_share > 0 && random.uniform() < mix.huge_share) {
            if (const auto frame = alloc({process.cpu, huge_order})) {
                process.huge_pages.push_back(*frame);
                got += std::max(1u << huge_order, grain);
                return true;
            }
        }
        const auto units = static_cast<std::uint32_t>((most + grain - 1) / grain);
        const Run run = alloc_run({process.cpu}, mix.huge_share > 0 ? 1 : units);
        if (run.count == 0) return false;
        process.add(memory_.map(), run);
        got += std::uint64_t{run.units()} * grain;
        if (process.tables.size() * pages_a_table < process.units) {
            const auto table = alloc({process.cpu, small_order, MigrateType::unmovable});
            if (table) process.tables.push_back(*table);
        }
        return true;
    };
    bool memory_left = true;
    while (memory_left && got < wanted && memory_.free_frames() + page_cache_frames() > kept_free) {
        Process& process = processes[random.small(mix.processes)];
        const std::uint64_t turn_began = got;
        const std::uint64_t turn_ends = std::min(got + 1 + random.small(mix.longest_turn), wanted);
        while (memory_left && got < turn_ends) memory_left = touch(process, turn_ends - got);
        // By chance, not at intervals: regular gaps would line up with the blocks and the slots.
        if (random.small_uniform() * mix.cache_interval >= static_cast<double>(got - turn_began))
            continue;
        cache_page(process.cpu);
    }
    // Processes end in an order of their own.
    shuffle_items(processes, random);
    for (Process& process : processes) process.exit(*this);
    const double cached_units = mix.cache_share * memory_.frames() / grain;
    page_cache_.shrink(memory_, 0, static_cast<std::size_t>(cached_units), random);
}

}  // namespace pagelens
