#include "core/accesses/compile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "core/accesses/page_runs.hpp"
#include "core/machine/set_associative.hpp"

namespace pagelens {

namespace {

// Grows without moving what it holds.
class OpList {
  public:
    static constexpr std::size_t block_ops = 1u << 16;

    void push_back(const Op& op) {
        if (blocks_.empty() || blocks_.back().size() == block_ops) {
            // The first block grows by itself: programs may be small.
            blocks_.emplace_back().reserve(blocks_.size() > 1 ? block_ops : 0);
        }
        blocks_.back().push_back(op);
        ++size_;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    Op& operator[](std::size_t i) { return blocks_[i / block_ops][i % block_ops]; }
    [[nodiscard]] const std::vector<std::vector<Op>>& blocks() const { return blocks_; }

    void truncate(std::size_t size) {
        size_ = size;
        blocks_.resize((size + block_ops - 1) / block_ops);
        if (size % block_ops != 0) blocks_.back().resize(size % block_ops);
        if (!blocks_.empty()) blocks_.back().shrink_to_fit();
    }

  private:
    std::vector<std::vector<Op>> blocks_;
    std::size_t size_ = 0;
};

bool is_of_lines(OpKind kind) { return kind <= OpKind::touch; }

class OpsInMemory final : public CompiledTrace {
  public:
    OpList list;
    std::vector<VirtualPage> virtual_pages;
    std::vector<FilePages> file_ranges;
    unsigned object_count = 0;
    std::vector<unsigned> phases_of_intervals;
    unsigned thread_count = 1;
    std::vector<std::uint64_t> instruction_counts;  // [phase or interval * threads + thread]
    std::uint64_t line_count = 0;
    std::vector<std::string> texts;
    SampleCounts sample_counts;

    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        return std::make_unique<BlockCursor>(list);
    }
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return virtual_pages; }
    [[nodiscard]] std::span<const FilePages> file_pages() const override { return file_ranges; }
    [[nodiscard]] unsigned objects() const override { return object_count; }
    [[nodiscard]] unsigned phases() const override {
        return static_cast<unsigned>(instruction_counts.size() / thread_count);
    }
    [[nodiscard]] unsigned threads() const override { return thread_count; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instruction_counts;
    }
    [[nodiscard]] std::uint64_t ops() const override { return list.size(); }
    [[nodiscard]] std::uint64_t lines() const override { return line_count; }
    [[nodiscard]] const std::vector<std::string>& warnings() const override { return texts; }
    [[nodiscard]] const std::vector<unsigned>& interval_phases() const override {
        return phases_of_intervals;
    }
    [[nodiscard]] const SampleCounts& sampled() const override { return sample_counts; }

  private:
    class BlockCursor final : public Cursor {
      public:
        explicit BlockCursor(const OpList& list) : list_(list) {}
        std::span<const Op> next() override {
            if (block_ == list_.blocks().size()) return {};
            return list_.blocks()[block_++];
        }

      private:
        const OpList& list_;
        std::size_t block_ = 0;
    };
};

// Line addresses as the private caches see them. Of a page of 2^page_bits bytes the caches may
// index all bits, so the 4 KiB pages in it keep their places; the large pages themselves are
// numbered in the order of first use, which no set index sees.
class CacheAddresses {
  public:
    explicit CacheAddresses(unsigned page_bits) : small_bits_(page_bits - pagelens::page_bits) {}

    // The first line of a page not seen before.
    std::uint64_t add(std::uint32_t page, std::uint64_t number) {
        if (small_bits_ == 0) return std::uint64_t{page} * lines_per_page;
        const std::uint64_t large = number >> small_bits_;
        std::uint32_t index = large_pages_.find(large);
        if (index == PageMap::absent) {
            index = large_count_++;
            large_pages_.set(large, index);
        }
        const std::uint64_t low = number & ((std::uint64_t{1} << small_bits_) - 1);
        const std::uint64_t place = (std::uint64_t{index} << small_bits_) | low;
        pages_.set(place, page);
        return place * lines_per_page;
    }

    std::uint32_t page_of(std::uint64_t line) {
        const std::uint64_t place = line / lines_per_page;
        return small_bits_ == 0 ? static_cast<std::uint32_t>(place) : pages_.find(place);
    }

  private:
    unsigned small_bits_;
    std::uint32_t large_count_ = 0;
    PageMap large_pages_;
    PageMap pages_;  // place -> page
};

// The pages of all modules that show their files. Of modules that had one address after the other
// the ranges may overlap.
std::vector<FilePages> file_pages(const std::vector<ModuleDefinition>& modules,
                                  const Padding& padding) {
    std::vector<FilePages> pages;
    for (const ModuleDefinition& module : modules)
        for (const auto& [start, size] : module.file_backed)
            pages.push_back({padding(page_of(VirtualAddress(start))),
                             padding(page_of(VirtualAddress(start + size)))});
    std::sort(pages.begin(), pages.end(),
              [](const FilePages& a, const FilePages& b) { return a.begin < b.begin; });
    return pages;
}

class Compiler {
  public:
    Compiler(const TraceReader& reader, const CompileOptions& options)
        : walk_(reader, options.sample.sets),
          sample_(options.sample),
          padding_(options.padding),
          addresses_(options.page_bits),
          runs_(result_->list, options.order),
          interval_(options.interval_instructions) {
        result_->thread_count = std::max(1u, static_cast<unsigned>(reader.threads().size()));
        result_->object_count = static_cast<unsigned>(walk_.objects().origins().size());
        const std::size_t phases = interval_ != 0 ? 1 : walk_.phases().size();
        result_->instruction_counts.resize(phases * result_->thread_count);
        if (samples())
            result_->sample_counts.users.resize(std::size_t{result_->object_count} *
                                                result_->thread_count);
        make_room();
        if (interval_ != 0) result_->phases_of_intervals = {0};
        result_->file_ranges = file_pages(reader.modules(), padding_);
        for (const PrivateCache& cache : options.private_caches) {
            levels_.push_back({cache, {}});
            levels_.back().caches.resize(result_->thread_count / cache.threads + 1);
        }
    }

    std::unique_ptr<const CompiledTrace> run(const Poll& poll) {
        walk_.run(*this, poll);
        number_pages_by_address();
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
                runs_.line(OpKind::stream_store, page, index, object, thread);
                break;
            case EventKind::touch:
                if (!levels_.empty()) cache(0, thread).renew(address);
                break;
            case EventKind::first_store:
                if (levels_.empty()) break;  // without a cache the line is not fetched again
                [[fallthrough]];
            default:
                access(0, address, kind != EventKind::read, thread);
        }
    }

    void map(PageState state, std::uint32_t page, ObjectIndex object, unsigned thread) {
        const auto kind = state == PageState::written ? OpKind::map_write : OpKind::map_read;
        runs_.barrier(make_op(kind, page, 0, object, thread));
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

    void birth(ObjectIndex, std::uint64_t, std::uint64_t) {}
    void death(std::uint64_t) {}
    void blocks_gone(std::uint64_t, std::uint64_t) {}

    void progress(unsigned thread, std::uint64_t instructions) {
        result_->instruction_counts[phase_ * result_->thread_count + thread] += instructions;
        executed_ += instructions;
        touch();
        if (interval_ != 0 && executed_ >= interval_)
            begin_interval(result_->phases_of_intervals.back(), thread);
    }

  private:
    static constexpr std::uint64_t fewest_of_interval = 8;  // of its instructions, one in so many
    static constexpr double golden_ratio = 0.6180339887498949;  // its multiples keep apart modulo 1

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

    // What the sample counts of an interval, and where in it lines touch: elsewhere in each, lest
    // it be the same place of a loop.
    void make_room() {
        if (!samples()) return;
        SampleCounts& counts = result_->sample_counts;
        counts.seen.resize(counts.seen.size() + result_->object_count);
        counts.kept.resize(counts.seen.size());
        counts.touched.push_back(0);
        if (sample_.touching == 0) return;
        touch_length_ = std::max<std::uint64_t>(1, interval_ / sample_.touching);
        const double place = std::fmod(static_cast<double>(phase_) * golden_ratio, 1.0);
        touch_begin_ =
            static_cast<std::uint64_t>(place * static_cast<double>(interval_ - touch_length_));
        touch_end_ = 0;
        touch();
    }

    // Lines touch from a stretch's beginning on, which is noticed between batches of events.
    void touch() {
        if (touch_length_ == 0) return;
        if (touch_end_ == 0 && executed_ >= touch_begin_) touch_end_ = executed_ + touch_length_;
        touches_ = executed_ < touch_end_;
    }

    // Whether a line is in the sample; it is counted, and touches where lines do.
    bool keep(EventKind kind, std::uint32_t page, unsigned index, ObjectIndex object,
              unsigned thread) {
        const bool in_sample = (sample_.sets >> index & 1) != 0;
        if (kind > EventKind::stream_store || kind == EventKind::first_store) return in_sample;
        SampleCounts& counts = result_->sample_counts;
        const std::size_t at = std::size_t{phase_} * result_->object_count + object;
        ++counts.seen[at];
        counts.kept[at] += in_sample;
        counts.users[std::size_t{object} * result_->thread_count + thread] = 1;
        if (touches_) {
            ++counts.touched[phase_];

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

    // A load or store at level 0; further down a fetch, or the taking of a dirty line. Below the
    // last level are the ops.
    void access(std::size_t level, std::uint64_t line, bool write, unsigned thread) {
        if (level == levels_.size())
            return emit(write && level > 0 ? OpKind::write_back : OpKind::fetch, line, thread);
        const CacheAccess here = cache(level, thread).access(line, write);
        // A line that comes dirty from above is whole: it is not fetched from below.
        if (!here.hit && !(write && level > 0)) access(level + 1, line, false, thread);
        if (here.victim_dirty) access(level + 1, here.victim, true, thread);
    }

    void emit(OpKind kind, std::uint64_t line, unsigned thread) {
        const std::uint32_t page = addresses_.page_of(line);
        const auto index = static_cast<unsigned>(line % lines_per_page);
        const std::uint64_t number = walk_.pages()[page].number;
        runs_.line(kind, page, index, walk_.objects().at(number * lines_per_page + index), thread);
    }

    // The pages' frames go: what is dirty in the caches is still written to them.
    void drop(std::span<const std::uint32_t> pages) {
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

    // From the order of first use to that of addresses; an unmapped range becomes one op.
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
        OpList& ops = result_->list;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            Op op = ops[i];
            if (is_of_lines(op.kind()))
                result_->line_count += static_cast<unsigned>(std::popcount(op.lines));
            if (op.kind() != OpKind::phase) op.page = rank[op.page];
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

    TraceWalk walk_;
    const LineSample sample_;
    const Padding& padding_;
    CacheAddresses addresses_;
    std::unique_ptr<OpsInMemory> result_ = std::make_unique<OpsInMemory>();
    PageRuns<OpList> runs_;
    std::vector<Level> levels_;
    std::vector<std::uint64_t> bases_;  // first line of each page, as the caches see it
    const std::uint64_t interval_;
    std::uint64_t executed_ = 0;  // instructions of this interval
    unsigned phase_ = 0;          // or interval
    bool touches_ = false;        // now
    std::uint64_t touch_begin_ = 0, touch_length_ = 0,
                  touch_end_ = 0;  // instructions of this interval
};

void check(const TraceHeader& header, const CompileOptions& options) {
    const auto require = [](bool good, const char* what) {
        if (!good) throw std::invalid_argument(what);
    };
    require(options.page_bits >= page_bits && options.page_bits <= 30, "page_bits is not 12 to 30");
    for (const auto& [cache, threads] : options.private_caches) {
        require(threads >= 1, "a private cache belongs to no thread");
        require(std::has_single_bit(cache.sets) && cache.sets >= lines_per_page,
                "a private cache's sets are not a power of two from 64 on");
        require(cache.ways >= 1 && cache.ways <= 64, "a private cache's ways are not 1 to 64");
        require(
            line_bits + static_cast<unsigned>(std::countr_zero(cache.sets)) <= options.page_bits,
            "a private cache is indexed by address bits above the page shift");
    }
    require(options.sample.sets != 0, "a sample has no sets");
    require(options.sample.sets == all_line_sets || options.interval_instructions != 0,
            "lines are sampled of programs in intervals only");
    if (options.private_caches.empty()) return;
    require(options.private_caches[0].threads == 1, "the first private cache is shared");
    require(is_exact_for(header, options.private_caches[0].shape),
            "the trace is not exact for this first-level cache");
}

}  // namespace

bool is_exact_for(const TraceHeader& header, CacheShape l1) {
    return header.exact_for.empty() ||
           std::any_of(header.exact_for.begin(), header.exact_for.end(), [&](CacheShape family) {
               return l1.sets >= family.sets && l1.ways >= family.ways;
           });
}

std::unique_ptr<const CompiledTrace> compile(const TraceReader& reader,
                                             const CompileOptions& options, const Poll& poll) {
    check(reader.header(), options);
    return Compiler(reader, options).run(poll);
}

}  // namespace pagelens
