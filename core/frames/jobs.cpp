// The jobs of a node: NodeState::age and run_job.
#include <algorithm>
#include <vector>

#include "core/frames/node_state.hpp"

namespace pagelens {
namespace {

// The pages that the kernel gathers when a process ends. It frees each such batch last page first
// (mmu_gather and release_pages() of Linux 6.1).
constexpr std::uint32_t gather_pages = 510;
constexpr std::uint32_t pages_a_table = 512;  // entries of a page table
constexpr unsigned slab_order = 3;

// Single pages in the order in which they came.
struct Pages {
    std::vector<Run> runs;
    std::uint64_t count = 0;

    void add(const Memmap& map, Run run) {
        count += map.frames_of(run);
        if (runs.empty()) return runs.push_back(run);
        Run& last = runs.back();
        if (run.parts != map.whole()) {  // frames of one unit become one run
            if (last.first != run.first) return runs.push_back(run);
            last.parts |= run.parts;
        } else if (last.parts == run.parts && last.count > 0 && run.count > 0 &&
                   last.at(last.units()) == run.first &&
                   map.pageblock_begin(last.first) == map.pageblock_begin(run.first)) {
            last.count += run.count;  // as do neighbours in one pageblock
        } else {
            runs.push_back(run);
        }
    }
};

// The memory of one process.
struct Process {
    unsigned cpu = 0;
    Pages pages, tables;
    std::vector<Frame> huge_pages;
    // Stands for everything that the kernel keeps of the process in slabs of orders 1 to 3. When
    // such a block is freed after much else, the CPU's lists are emptied
    // (free_unref_page_commit()).
    MaybeFrame slab;

    void exit(NodeState& node) {
        Memory& memory = node.memory();
        for (const Frame page : huge_pages) memory.free(cpu, page, huge_order);
        const Memmap& map = memory.map();
        std::uint32_t room = gather_pages;
        std::vector<Run> gathered;
        const auto flush = [&] {
            for (; !gathered.empty(); gathered.pop_back()) {
                memory.free_run(cpu, gathered.back().reversed());
            }
            room = gather_pages;
        };
        for (Run run : pages.runs) {
            while (run.count != 0) {
                const Run part = run.split(std::min(map.units_of(room), run.units()));
                gathered.push_back(part);
                room -= std::min(room, map.frames_of(part));
                if (room == 0) flush();
            }
        }
        flush();
        for (const Run run : tables.runs) memory.free_run(cpu, run);
        if (slab) memory.free(cpu, *slab, slab_order);
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
    for (std::uint32_t p = 0; p < mix.processes; ++p) {
        processes[p].cpu = p % memory_.cpus();
        processes[p].slab = alloc({processes[p].cpu, slab_order, MigrateType::unmovable});
    }
    std::uint64_t got = 0;
    // Touches some of the `most` frames that the process uses next. Returns false if memory is
    // full.
    const auto touch = [&](Process& process, std::uint64_t most) {
        if (mix.huge_share > 0 && random.uniform() < mix.huge_share) {
            if (const auto frame = alloc({process.cpu, huge_order})) {
                process.huge_pages.push_back(*frame);
                got += 1u << huge_order;
                return true;
            }
        }
        const auto pages = static_cast<std::uint32_t>(mix.huge_share > 0 ? 1 : most);
        const Run run = alloc_run({process.cpu}, std::max(pages, grain));
        if (run.count == 0) return false;
        process.pages.add(memory_.map(), run);
        got += memory_.map().frames_of(run);
        if (process.tables.count * pages_a_table < process.pages.count) {
            const Run table = alloc_run({process.cpu, small_order, MigrateType::unmovable}, 1);
            if (table.count != 0) process.tables.add(memory_.map(), table);
        }
        return true;
    };
    bool memory_left = true;
    while (memory_left && got < wanted && memory_.free_frames() + page_cache_frames() > kept_free) {
        Process& process = processes[random.small(mix.processes)];
        const std::uint64_t turn_began = got;
        const std::uint64_t turn_ends = std::min(got + 1 + random.small(mix.longest_turn), wanted);
        while (memory_left && got < turn_ends) memory_left = touch(process, turn_ends - got);
        // Chance decides, because regular gaps would line up with the blocks and the slots.
        if (random.small_uniform() * mix.cache_interval >= static_cast<double>(got - turn_began))
            continue;
        cache_page(process.cpu);
    }
    // Processes end in another order than they began in.
    shuffle_items(processes, random);
    for (Process& process : processes) process.exit(*this);
    const double cached_pages = mix.cache_share * memory_.frames();
    page_cache_.shrink(memory_, 0, static_cast<std::size_t>(cached_pages), random);
}

}  // namespace pagelens
