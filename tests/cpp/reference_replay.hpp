// A replay written to be obviously right: one line after the other, ordinary containers, no
// sampling, no page runs. What core/replay must equal, count for count.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/replay/replay.hpp"
#include "tests/cpp/reference_caches.hpp"
#include "tests/cpp/reference_hierarchy.hpp"

namespace pagelens::reference {

// Ops in memory.
class ListedProgram : public Program {
  public:
    ListedProgram(std::vector<Op> ops, std::vector<VirtualPage> pages, unsigned objects,
                  unsigned phases, unsigned threads)
        : ops_(std::move(ops)),
          pages_(std::move(pages)),
          instructions_(phases * threads),
          objects_(objects),
          phases_(phases),
          threads_(threads) {}
    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        return std::make_unique<Once>(ops_);
    }
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return pages_; }
    [[nodiscard]] std::span<const VirtualRange> file_pages() const override { return file_pages_; }
    void set_file_pages(std::vector<VirtualRange> ranges) { file_pages_ = std::move(ranges); }
    [[nodiscard]] std::span<const VirtualRange> advised_pages() const override { return advised_; }
    void set_advised_pages(std::vector<VirtualRange> ranges) { advised_ = std::move(ranges); }
    [[nodiscard]] unsigned objects() const override { return objects_; }
    [[nodiscard]] unsigned phases() const override { return phases_; }
    [[nodiscard]] unsigned threads() const override { return threads_; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instructions_;
    }
    [[nodiscard]] const std::vector<Op>& ops() const { return ops_; }

  private:
    class Once : public Cursor {
      public:
        explicit Once(std::span<const Op> ops) : left_(ops) {}
        std::span<const Op> next() override {
            const auto batch = left_.first(std::min<std::size_t>(left_.size(), 100));
            left_ = left_.subspan(batch.size());
            return batch;
        }

      private:
        std::span<const Op> left_;
    };
    std::vector<Op> ops_;
    std::vector<VirtualPage> pages_;
    std::vector<VirtualRange> file_pages_, advised_;
    std::vector<std::uint64_t> instructions_;
    unsigned objects_, phases_, threads_;
};

// The frames of a job's pages, as its ops give and take them.
class JobFrames {
  public:
    JobFrames(std::unique_ptr<FrameSource> source, std::uint32_t ranks)
        : source_(std::move(source)), ranks_(ranks) {}
    [[nodiscard]] FrameSource& source() { return *source_; }

    // Nothing if it has none: the zero page.
    [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t page, std::uint32_t rank) const {
        if (const auto shown = shown_.find(page); shown != shown_.end())
            return cache_.at(shown->second);
        const auto own = own_.find({page, rank});
        return own == own_.end() ? std::nullopt : std::optional(own->second);
    }
    // Whether all ranks have the same frame.
    [[nodiscard]] bool shared(std::uint32_t page) const { return shown_.contains(page); }
    // For a write; cleared(rank, frame) where a rank is given a new one.
    template <class Cleared>
    void map_write(std::uint32_t page, Cleared&& cleared) {
        shown_.erase(page);
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (own_.contains({page, rank})) continue;
            const std::uint32_t frame =
                source_->alloc({.cpu = rank, .page = page, .rank = rank})->raw();
            own_[{page, rank}] = frame;
            cleared(rank, frame);
        }
    }
    // For a read of a page that shows page `cached` - 1 of the page cache; 0: of zeros.
    void map_read(std::uint32_t page, std::uint64_t cached) {
        if (cached == 0 || find(page, 0)) return;
        if (!cache_.contains(cached)) cache_[cached] = source_->alloc({.page = page})->raw();
        shown_[page] = cached;
    }
    void unmap(std::uint32_t page) {
        shown_.erase(page);
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            const auto found = own_.find({page, rank});
            if (found == own_.end()) continue;
            source_->free({.cpu = rank, .page = page}, Frame(found->second));
            own_.erase(found);
        }
    }

  private:
    std::unique_ptr<FrameSource> source_;
    std::uint32_t ranks_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> own_;  // (page, rank)
    std::map<std::uint64_t, std::uint32_t> cache_;  // page of the page cache -> frame
    std::map<std::uint32_t, std::uint64_t> shown_;  // page -> that of the page cache
};

class SlowReplay {
  public:
    // `caches`: of one group of cores with an L3, instead of the L2s of `h`.
    SlowReplay(const ListedProgram& program, const Placement& placement,
               const pagelens::Hierarchy& h, std::uint32_t ranks,
               const HierarchyModel* caches = nullptr)
        : program_(program),
          h_(h),
          ranks_(ranks),
          frames_(placement.open({ranks, static_cast<std::uint32_t>(program.pages().size()), 0}),
                  ranks),
          counters_(program.phases(), program.objects()),
          main_(std::uint64_t{h.slots} / h.ways * 64, h.ways),
          two_way_(std::uint64_t{h.slots} / 2 * 64, 2) {
        for (std::uint32_t core = 0; caches != nullptr && core < ranks * program.threads();
             core += caches->cores)
            groups_.emplace_back(*caches);
        counters_.caches.resize(groups_.empty() ? 0 : program.phases() * cache_counters);
        if (h.l2_sets != 0) l2_.resize(ranks * program.threads(), LruCache(h.l2_sets, h.l2_ways));
        for (const Op& op : program.ops()) step(op);
    }
    [[nodiscard]] const Counters& counters() const { return counters_; }

  private:
    void step(const Op& op) {
        if (op.kind() == OpKind::phase) phase_ = op.page;
        if (op.kind() == OpKind::map_read) frames_.map_read(op.page, op.lines);
        if (op.kind() == OpKind::map_write) {
            frames_.map_write(op.page, [&](std::uint32_t rank, std::uint64_t frame) {
                for (std::uint64_t line = 0; line < 64; ++line) {
                    owner_[frame] = 0;
                    if (groups_.empty())
                        memory(0, frame * 64 + line, true);
                    else
                        through(op, rank, frame * 64 + line, AccessKind::stream_store);
                }
            });
        }
        if (op.kind() == OpKind::unmap) {
            for (std::uint32_t page = op.page; page < op.page + op.lines; ++page)
                frames_.unmap(page);
        }
        if (op.kind() != OpKind::fetch && op.kind() != OpKind::write_back &&
            op.kind() != OpKind::stream_store) {
            return;
        }
        // Where groups of cores have caches of their own, one may still hold lines of a frame that
        // another one was given since: they are its new owner's.
        for (std::uint32_t rank = 0; rank < ranks_ && !groups_.empty() && op.lines != 0; ++rank) {
            if (const auto frame = frames_.find(op.page, rank)) owner_[*frame] = op.object;
        }
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            for (std::uint64_t line = 0; line < 64; ++line) {
                const auto frame = frames_.find(op.page, rank);
                if (!frame || (op.lines >> line & 1) == 0) continue;
                access(op, rank, std::uint64_t{*frame} * 64 + line);
            }
        }
    }

    void access(const Op& op, std::uint32_t rank, std::uint64_t line) {
        const bool write = op.kind() != OpKind::fetch;
        if (groups_.empty()) owner_[line / 64] = op.object;
        if (!groups_.empty()) {
            return through(op, rank, line,
                           op.kind() == OpKind::fetch        ? AccessKind::read
                           : op.kind() == OpKind::write_back ? AccessKind::write_back
                                                             : AccessKind::stream_store);
        }
        if (h_.l2_sets == 0) return memory(op.object, line, write);
        LruCache& l2 = l2_[(rank * program_.threads() + op.thread) / h_.l2_shared_by];
        if (op.kind() == OpKind::stream_store) {
            if (l2.remove(line)) {
                add(op.object, Component::l2_write_backs);
                memory(op.object, line, true);
            }
            return memory(op.object, line, true);
        }
        const Outcome outcome = l2.access(line, write);
        add(op.object, Component::l2_accesses);
        if (!outcome.hit && !write) {
            add(op.object, Component::l2_misses);
            memory(op.object, line, false);
        }
        if (outcome.victim && outcome.victim->dirty) {
            const std::uint16_t owner = owner_[outcome.victim->number / 64];
            add(owner, Component::l2_write_backs);
            memory(owner, outcome.victim->number, true);
        }
    }

    void through(const Op& op, std::uint32_t rank, std::uint64_t line, AccessKind kind) {
        const std::uint32_t core = rank * program_.threads() + op.thread;
        const auto of_group = static_cast<std::uint32_t>(groups_.front().counts.size()) /
                              static_cast<std::uint32_t>(cache_counters);
        Hierarchy& caches = groups_[core / of_group];
        const std::vector<std::uint64_t> before = caches.counts;
        caches.access(line, core % of_group, kind);
        for (std::size_t i = 0; i < before.size(); ++i)
            counters_.caches[phase_ * cache_counters + i % cache_counters] +=
                caches.counts[i] - before[i];
        for (const MemoryAccess& access : std::exchange(caches.traffic, {}))
            memory(owner_[access.line() / 64], access.line(), access.write());
    }

    void memory(std::uint16_t object, std::uint64_t line, bool write) {
        add(object, write ? Component::msc_writes : Component::msc_reads);
        const Outcome outcome = main_.access(line, write);
        if (!outcome.hit) {
            add(object, Component::msc_misses);
            if (!write) add(object, Component::msc_read_misses);
        }
        if (outcome.victim) {
            add(object, Component::conflict_evictions);
            if (outcome.victim->dirty) add(object, Component::ddr_writes);
            const std::uint16_t victim = owner_[outcome.victim->number / 64];
            counters_.collisions.add(object, victim, 1);
        }
        const Outcome other = two_way_.access(line, write);
        if (!other.hit) {
            add(object, Component::two_way_misses);
            if (!write) add(object, Component::two_way_read_misses);
        }
        if (other.victim && other.victim->dirty) add(object, Component::two_way_ddr_writes);
    }

    void add(std::uint16_t object, Component component) {
        ++counters_.row(phase_, object)[static_cast<std::size_t>(component)];
    }

    const ListedProgram& program_;
    pagelens::Hierarchy h_;
    std::vector<Hierarchy> groups_;
    std::uint32_t ranks_;
    JobFrames frames_;
    Counters counters_;
    LruCache main_, two_way_;
    std::vector<LruCache> l2_;
    std::map<std::uint64_t, std::uint16_t> owner_;  // frame -> object
    unsigned phase_ = 0;
};

}  // namespace pagelens::reference
