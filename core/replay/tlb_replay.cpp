#include "core/replay/tlb_replay.hpp"
#include "core/machine/clones.hpp"

#include <stdexcept>
#include <unordered_map>

#include "core/accesses/merge.hpp"

namespace pagelens {

namespace {

class PageReplay {
  public:
    PageReplay(const TraceReader& reader, const Tlb& tlb, PageSize size)
        : reader_(reader), size_(size), tlbs_(reader.threads().size(), tlb) {
        for (const PhaseDefinition& phase : reader.phases())
            phases_.try_emplace(phase.id, phases_.size() + 1);
        counters_.resize((phases_.size() + 1) * tlbs_.size());
    }

    std::vector<TlbCounters> run(const Poll& poll) {
        MergedTrace merged(reader_);
        std::uint64_t batches = 0;
        while (const auto batch = merged.next()) {
            if (poll && ++batches % 4096 == 0) poll();
            for (const Event& event : batch->events) take(event, batch->thread);
        }
        return std::move(counters_);
    }

  private:
    void take(const Event& event, unsigned thread) {
        switch (event.kind) {
            case EventKind::read:
            case EventKind::write:
            case EventKind::first_store:
            case EventKind::stream_store:
            case EventKind::page_touch:
                use(event.address, thread);
                break;
            case EventKind::remap:
                invalidate(event.extra, event.count);
                [[fallthrough]];
            case EventKind::unmap:
            case EventKind::discard:
                invalidate(event.address, event.count);
                break;
            case EventKind::phase: {
                const auto found = phases_.find(event.extra);
                phase_ = found == phases_.end() ? 0 : found->second;
                break;
            }
            case EventKind::touch:  // of a line, its page was used long since
            case EventKind::page_read:
            case EventKind::page_write:  // by the kernel, or the use follows
            case EventKind::birth:
            case EventKind::death:
            case EventKind::sync:
            case EventKind::map_file:
            case EventKind::advise:
            case EventKind::wait:
                break;
        }
    }

    PAGELENS_CLONES void use(std::uint64_t line, unsigned thread) {
        const std::uint64_t address = line << line_bits & address_mask;
        tlbs_[thread].access(address, size_, 1, counters_[phase_ * tlbs_.size() + thread],
                             [](unsigned, unsigned) {});
    }
    void invalidate(std::uint64_t page, std::uint64_t count) {
        for (Tlb& tlb : tlbs_) tlb.invalidate(VirtualPage(page), count);
    }

    // A damaged file may hold any number.
    static constexpr std::uint64_t address_mask = (std::uint64_t{1} << virtual_bits) - 1;

    const TraceReader& reader_;
    PageSize size_;
    std::vector<Tlb> tlbs_;                                  // of each thread
    std::unordered_map<std::uint64_t, std::size_t> phases_;  // id -> index; 0 is outside of all
    std::size_t phase_ = 0;
    std::vector<TlbCounters> counters_;
};

}  // namespace

bool is_exact_for(const TraceHeader& header, const Tlb& tlb, PageSize size) {
    const auto [sets, ways] = header.page_filter;
    if (sets == 0) return true;  // nothing was filtered
    const Tlb::FirstLevel first = tlb.first_level(size);
    if (first.ways < ways) return false;
    return sets == 1 || (first.piece == PageSize::small && first.sets >= sets);
}

std::vector<TlbCounters> replay_pages(const TraceReader& reader, const Tlb& tlb, PageSize size,
                                      const Poll& poll) {
    if (!is_exact_for(reader.header(), tlb, size))
        throw std::invalid_argument("the trace's page filter hides what this TLB has to see");
    return PageReplay(reader, tlb, size).run(poll);
}

}  // namespace pagelens
