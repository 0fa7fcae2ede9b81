// Makes ops of what a walk through a trace tells: the visitor behind compile().
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/accesses/cache_addresses.hpp"
#include "core/accesses/compiled_trace.hpp"
#include "core/accesses/line_sharing.hpp"
#include "core/accesses/ops_in_memory.hpp"
#include "core/accesses/page_runs.hpp"
#include "core/accesses/touching_stretch.hpp"
#include "core/accesses/trace_walk.hpp"
#include "core/machine/set_associative.hpp"

namespace pagelens::detail {

// Returns the pages of all modules that show their files. If modules had one address one after the
// other, the ranges may overlap.
inline std::vector<VirtualRange> file_pages(const std::vector<ModuleDefinition>& modules,
                                            const Padding& padding) {
    std::vector<VirtualRange> pages;
    for (const ModuleDefinition& module : modules)
        for (const auto& [start, size] : module.file_backed)
            pages.push_back({padding(page_of(VirtualAddress(start))),
                             padding(page_of(VirtualAddress(start + size)))});
    std::sort(pages.begin(), pages.end(),
              [](const VirtualRange& a, const VirtualRange& b) { return a.begin < b.begin; });
    return pages;
}

// Returns the pages for which the program asked for large pages. What it asked piece by piece is
// one range, as it is one mapping in the kernel.
inline std::vector<VirtualRange> advised_pages(const Intervals<bool>& advised,
                                               const Padding& padding) {
    std::vector<VirtualRange> pages;
    advised.for_each(0, ~std::uint64_t{0}, [&](std::uint64_t begin, std::uint64_t end, bool) {
        const VirtualRange range{padding(VirtualPage(begin)), padding(VirtualPage(end))};
        if (!pages.empty() && pages.back().end == range.begin)
            pages.back().end = range.end;
        else
            pages.push_back(range);
    });
    return pages;
}

class Compiler {
  public:
    // The walk and the options must outlive it; the walk gives touches of the sample's sets at
    // least. Precondition: the options are possible (check() below compile()).
    Compiler(const TraceReader& reader, TraceWalk& walk, const CompileOptions& options)
        : walk_(walk),
          sample_(options.sample),
          padding_(options.padding),
          addresses_(options.page_bits),
          runs_(result_->list, options.order),
          interval_(options.interval_instructions),
          touching_(interval_, samples() ? sample_.touching : 0) {
        result_->thread_count = std::max(1u, static_cast<unsigned>(reader.threads().size()));
        result_->object_count = static_cast<unsigned>(walk_.objects().origins().size());
        const std::size_t phases = interval_ != 0 ? 1 : walk_.phases().size();
        result_->instruction_counts.resize(phases * result_->thread_count);
        if (samples())
            result_->sample_counts.users.resize(std::size_t{result_->object_count} *
                                                result_->thread_count);
        threads_ = result_->thread_count;
        make_room();
        if (interval_ != 0) result_->phases_of_intervals = {0};
        result_->file_ranges = file_pages(reader.modules(), padding_);
        for (const PrivateCache& cache : options.private_caches) {
            levels_.push_back({cache, {}});
            levels_.back().caches.resize(result_->thread_count / cache.threads + 1);
        }
        if (options.order == LineOrder::all && result_->thread_count > 1 && !levels_.empty())
            sharing_.emplace(result_->thread_count);
    }

    // Call this once, when the walk has ended.
    std::unique_ptr<const CompiledTrace> finish() {
        number_pages_by_address();
        result_->advised_ranges = advised_pages(walk_.advised(), padding_);
        result_->texts = walk_.warnings();
        return std::move(result_);
    }

    // --- what TraceWalk tells ---------------------------------------------------------------
    void line(EventKind kind, std::uint32_t page, unsigned index, ObjectIndex object,
              unsigned thread) {
        if (samples() && !keep(kind, page, index, object, thread)) return;
        const std::uint64_t address = base_of(page) + index;
        switch (kind) {
            case EventKind::stream_store:
                for (std::size_t level = 0; level < levels_.size(); ++level)
                    if (cache(level, thread).remove(address))
                        access(level + 1, address, true, thread);
                if (sharing_) sharing_->drop(page, index);
                runs_.line(OpKind::stream_store, page, index, object, thread);
                break;
            case EventKind::touch:
                if (!levels_.empty()) cache(0, thread).renew(address);
                break;
            case EventKind::first_store:
                if (levels_.empty()) break;  // without a cache the line is not fetched again
                [[fallthrough]];
            default:
                const bool store = kind != EventKind::read;
                const bool hit = access(0, address, store, thread);
                if (sharing_) share(page, index, object, thread, store, hit);
        }
    }

    void map(PageState state, std::uint32_t page, ObjectIndex object, unsigned thread) {
        const auto kind = state == PageState::written ? OpKind::map_write : OpKind::map_read;
        runs_.barrier(make_op(kind, page, walk_.pages()[page].cached, object, thread));
    }

    void unmap(std::span<const std::uint32_t> pages, unsigned thread) {
        drop(pages);
        for (const std::uint32_t page : pages)
            runs_.barrier(make_op(OpKind::unmap, page, 1, 0, thread));
    }

    void phase(unsigned phase, unsigned thread) {
        if (interval_ == 0)
            begin(phase, thread);
        else if (executed_ >= interval_ / fewest_of_interval)
            begin_interval(phase, thread);
        else
            result_->phases_of_intervals.back() = phase;
    }

    void meet(std::uint64_t meeting, unsigned thread) {
        runs_.barrier(make_op(OpKind::meet, 0, meeting, 0, thread));
    }

    void birth(ObjectIndex, std::uint64_t, std::uint64_t) {}
    void death(std::uint64_t) {}
    void blocks_gone(std::uint64_t, std::uint64_t) {}

    void progress(unsigned thread, std::uint64_t instructions, std::uint64_t) {
        result_->instruction_counts[phase_ * result_->thread_count + thread] += instructions;
        executed_ += instructions;
        touching_.reach(executed_);
        if (interval_ != 0 && executed_ >= interval_)
            begin_interval(result_->phases_of_intervals.back(), thread);
    }

  private:
    static constexpr std::uint64_t fewest_of_interval = 8;  // of its instructions, one in so many

    void begin(unsigned phase, unsigned thread) {
        phase_ = phase;
        runs_.barrier(make_op(OpKind::phase, phase, 0, 0, thread));
    }

    void begin_interval(unsigned phase, unsigned thread) {
        executed_ = 0;
        result_->phases_of_intervals.push_back(phase);
        result_->instruction_counts.resize(result_->instruction_counts.size() +
                                           result_->thread_count);
        begin(phase_ + 1, thread);
        make_room();
    }

    [[nodiscard]] bool samples() const { return sample_.sets != all_line_sets; }

    // Makes room for the sample's counts of an interval.
    void make_room() {
        if (!samples()) return;
        SampleCounts& counts = result_->sample_counts;
        counts.seen.resize(counts.seen.size() + result_->object_count);
        counts.kept.resize(counts.seen.size());
        counts.touched.push_back(0);
        seen_now_ = counts.seen.data() + counts.seen.size() - result_->object_count;
        kept_now_ = counts.kept.data() + counts.kept.size() - result_->object_count;
        users_ = counts.users.data();
        touching_.begin(phase_);
    }

    // Returns whether a line is in the sample. Counts the line, and lets it touch its page in a
    // stretch.
    bool keep(EventKind kind, std::uint32_t page, unsigned index, ObjectIndex object,
              unsigned thread) {
        const bool in_sample = (sample_.sets >> index & 1) != 0;
        if (kind > EventKind::stream_store || kind == EventKind::first_store) return in_sample;
        ++seen_now_[object];
        kept_now_[object] += in_sample;
        users_[std::size_t{object} * threads_ + thread] = 1;
        if (touching_.now()) {
            ++result_->sample_counts.touched.back();
            runs_.line(OpKind::touch, page, index, object, thread);
        }
        return in_sample;
    }

    // One level of private caches; each is made when a thread first needs it.
    struct Level {
        PrivateCache options;
        std::vector<std::unique_ptr<SetAssociativeCache>> caches;
    };

    SetAssociativeCache& cache(std::size_t level, unsigned thread) {
        Level& its = levels_[level];
        auto& cache = its.caches[thread / its.options.threads];
        if (!cache)
            cache = std::make_unique<SetAssociativeCache>(its.options.shape.sets,
                                                          its.options.shape.ways);
        return *cache;
    }

    // A line that another thread has changed is no longer in the thread's own caches, which are
    // simulated as if each thread were alone.
    void share(std::uint32_t page, unsigned index, ObjectIndex object, unsigned thread, bool store,
               bool hit) {
        const auto from = sharing_->use(page, index, thread, store);
        if (!from || !hit) return;
        sharing_->count({phase_, object, static_cast<std::uint16_t>(*from),
                         static_cast<std::uint16_t>(thread), page * lines_per_page + index, 1});
    }

    // Does an access at a level: a load or store at level 0; further down a fetch, or the taking of
    // a dirty line. Below the last level are the ops. Returns whether the level has the line.
    bool access(std::size_t level, std::uint64_t line, bool write, unsigned thread) {
        if (level == levels_.size()) {
            emit(write && level > 0 ? OpKind::write_back : OpKind::fetch, line, thread);
            return false;
        }
        const CacheAccess here = cache(level, thread).access(line, write);
        // A line that comes dirty from above is whole: it is not fetched from below.
        if (!here.hit && !(write && level > 0)) access(level + 1, line, false, thread);
        if (here.victim_dirty) access(level + 1, here.victim, true, thread);
        return here.hit;
    }

    void emit(OpKind kind, std::uint64_t line, unsigned thread) {
        const std::uint32_t page = addresses_.page_of(line);
        const auto index = static_cast<unsigned>(line % lines_per_page);
        const std::uint64_t number = walk_.pages()[page].number;
        runs_.line(kind, page, index, walk_.objects().at(number * lines_per_page + index), thread);
    }

    // Drops the pages, whose frames go. What is dirty in the caches is still written to them.
    void drop(std::span<const std::uint32_t> pages) {
        if (sharing_)
            for (const std::uint32_t page : pages)
                for (unsigned i = 0; i < lines_per_page; ++i) sharing_->drop(page, i);
        for (std::size_t level = 0; level < levels_.size(); ++level) {
            const Level& its = levels_[level];
            for (unsigned first = 0; first < result_->thread_count; first += its.options.threads) {
                if (!its.caches[first / its.options.threads]) continue;
                for (const std::uint32_t page : pages)
                    for (unsigned i = 0; i < lines_per_page; ++i)
                        if ((sample_.sets >> i & 1) != 0 &&
                            cache(level, first).remove(base_of(page) + i))
                            access(level + 1, base_of(page) + i, true, first);
            }
        }
    }

    std::uint64_t base_of(std::uint32_t page) {
        if (bases_.size() <= page) [[unlikely]]
            add_bases(page);
        return bases_[page];
    }

    [[gnu::noinline]] void add_bases(std::uint32_t page) {
        while (bases_.size() <= page) {
            const auto next = static_cast<std::uint32_t>(bases_.size());
            const VirtualPage number(walk_.pages()[next].first_number);
            bases_.push_back(addresses_.add(next, padding_(number).raw()));
            for (const Level& level : levels_)
                if (bases_.back() / level.options.shape.sets >= (1u << 31) - 2)
                    throw std::length_error("the trace touches too many pages");
        }
    }

    // Renumbers pages from the order of first use to that of addresses. An unmapped range becomes
    // one op.
    void number_pages_by_address() {
        const auto pages = walk_.pages();
        std::vector<std::uint32_t> order(pages.size());
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return pages[a].first_number < pages[b].first_number;
        });
        std::vector<std::uint32_t> rank(pages.size());
        for (std::uint32_t i = 0; i < order.size(); ++i) {
            rank[order[i]] = i;
            result_->virtual_pages.push_back(padding_(VirtualPage(pages[order[i]].first_number)));
        }
        if (sharing_) result_->taken = sharing_->counted(rank);
        OpList& ops = result_->list;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            Op op = ops[i];
            if (is_of_lines(op.kind()))
                result_->line_count += static_cast<unsigned>(std::popcount(op.lines));
            if (op.kind() != OpKind::phase && op.kind() != OpKind::meet) op.page = rank[op.page];
            Op* last = kept > 0 ? &ops[kept - 1] : nullptr;
            if (op.kind() == OpKind::unmap && last != nullptr && last->kind() == OpKind::unmap &&
                last->page + last->lines == op.page && last->thread == op.thread) {
                ++last->lines;
            } else {
                ops[kept++] = op;
            }
        }
        ops.truncate(kept);
    }

    TraceWalk& walk_;
    const LineSample sample_;
    const Padding& padding_;
    CacheAddresses addresses_;
    std::unique_ptr<OpsInMemory> result_ = std::make_unique<OpsInMemory>();
    PageRuns<OpList> runs_;
    std::vector<Level> levels_;
    std::optional<LineSharing> sharing_;  // if all lines keep their order, and threads are several
    std::vector<std::uint64_t> bases_;    // first line of each page, as the caches see it
    const std::uint64_t interval_;
    std::uint64_t executed_ = 0;  // instructions of this interval
    unsigned phase_ = 0;          // or interval
    TouchingStretch touching_;
    // Point into the result's counts: [object] of this interval, [object * threads + thread].
    std::uint64_t *seen_now_ = nullptr, *kept_now_ = nullptr;
    std::uint8_t* users_ = nullptr;
    std::size_t threads_ = 1;
};

}  // namespace pagelens::detail
