#include "core/frames/compaction.hpp"

#include <algorithm>

namespace pagelens {
namespace {

constexpr std::uint32_t cluster_pages = 32;  // COMPACT_CLUSTER_MAX

class ZoneCompaction {
  public:
    // `nobodys`: frames that are in per-cpu lists as it begins. (What it frees itself lies behind
    // the migrate scanner.)
    ZoneCompaction(Memory& memory, Zone& zone, unsigned cpu, const std::vector<bool>& nobodys,
                   std::vector<Move>& moves)
        : memory_(memory),
          map_(memory.map()),
          zone_(zone),
          kernel_(zone.kernel()),
          cpu_(cpu),
          nobodys_(nobodys),
          moves_(moves),
          source_(zone.begin()),
          zone_end_(map_.frame_of(zone.end()).raw()),
          target_(pageblock_of(zone_end_ - 1)) {}

    // Does as compact_zone(). Pages are moved a cluster at a time, the last one found first, as the
    // kernel's lists have it.
    void run() {
        Unit cluster_began = 0;
        while (pageblock_of(map_.frame_of(source_).raw()) < pageblock_of(target_)) {
            const Unit begin = source_;
            collect_sources(kernel_.finishes_pageblocks &&
                            map_.pageblock_begin(begin) == map_.pageblock_begin(cluster_began));
            if (sources_.empty()) continue;
            cluster_began = begin;
            for (const std::size_t wanted = sources_.size(); !sources_.empty();
                 sources_.pop_back()) {
                if (targets_.empty()) collect_targets(wanted);
                if (targets_.empty()) return;
                move(sources_.back(), targets_.back());
                targets_.pop_back();
            }
        }
        for (; !targets_.empty(); targets_.pop_back()) free(targets_.back());
    }

  private:
    [[nodiscard]] static std::uint32_t pageblock_of(std::uint32_t frame) {
        return frame & ~(pageblock_frames - 1);
    }

    // Collects the movable pages of one pageblock: a cluster of them, or all that are left if the
    // last cluster was of the same pageblock (isolate_migratepages()).
    void collect_sources(bool all) {
        const Unit end = map_.pageblock_begin(source_) + map_.pageblock_units();
        while (source_ < end && (all || sources_.size() < cluster_pages)) {
            const Unit free = source_ == map_.pageblock_begin(source_)
                                  ? map_.free_block_at(source_)
                                  : (map_.is_free(source_) ? source_ : no_unit);
            if (free != no_unit) {
                source_ = std::min(free + (1u << map_.free_level(free)), end);
                continue;
            }
            map_.for_parts(source_, map_.movable_parts(source_), [this](Frame page) {
                if (!nobodys_[page.raw()]) sources_.push_back(page);
            });
            ++source_;
        }
    }

    // Takes free pages out of the lists, from the zone's last pageblock downwards, until there are
    // as many as are to be moved (isolate_freepages()). After each pageblock that had nothing the
    // scanner of newer kernels takes longer strides, so it passes over most small blocks.
    void collect_targets(std::size_t wanted) {
        const std::uint32_t lowest =
            pageblock_of(map_.frame_of(source_).raw()) + pageblock_frames;  // behind the other one
        std::uint32_t stride = 1;
        for (std::uint32_t block = pageblock_of(target_); block >= lowest;
             block -= pageblock_frames, target_ = block) {
            if (!suitable(map_.unit_of(Frame(block)))) continue;
            const std::size_t before = targets_.size();
            const std::uint32_t end = std::min(block + pageblock_frames, zone_end_);
            take_targets(end, stride, wanted);
            if (targets_.size() >= wanted) {
                if (target_ == end) target_ = block - pageblock_frames;
                return;
            }
            if (target_ < end) return;  // at the watermark
            const bool longer = kernel_.compacts_in_strides && targets_.size() == before;
            stride = longer ? std::min(2 * stride, cluster_pages) : 1;
        }
    }

    // Wholly free pageblocks are left whole; only movable ones receive. (Of a block of two
    // pageblocks the second one passes, as in the kernel, and has nothing.)
    [[nodiscard]] bool suitable(Unit block) const {
        return map_.type_of(block) == MigrateType::movable &&
               !(map_.is_free(block) && map_.free_level(block) >= map_.pageblock_level());
    }

    // Takes the free blocks that the strides hit, up to the end of the pageblock
    // (isolate_freepages_block()).
    void take_targets(std::uint32_t end, std::uint32_t stride, std::size_t wanted) {
        const std::uint32_t kept = kernel_.compacts_to_min ? zone_.spec().min : zone_.spec().low;
        std::uint32_t at = target_;
        for (; at < end; at += stride) {
            const std::optional<unsigned> order = map_.free_order_at(Frame(at));
            if (!order) continue;
            const std::uint32_t size = 1u << *order;
            if (zone_.free_frames() <= kept + size) break;
            take_block(Frame(at), size);
            at += size - 1;
            if (targets_.size() < wanted) continue;
            ++at;
            break;
        }
        target_ = std::min(at, end);
    }

    void take_block(Frame first, std::uint32_t size) {
        const Unit unit = map_.unit_of(first);
        if (map_.is_free(unit)) {
            zone_.remove(map_, unit, map_.free_level(unit));
            map_.set_pages(unit, size >> map_.grain_order(), MigrateType::movable);
        } else {
            const Parts block = (Parts{1} << size) - 1;
            zone_.take_parts(map_, unit, block << (first.raw() & (map_.grain() - 1)),
                             MigrateType::movable);
        }
        for (std::uint32_t i = 0; i < size; ++i) targets_.push_back(Frame(first.raw() + i));
    }

    void move(Frame from, Frame to) {
        moves_.push_back({from, to});
        free(from);
    }

    void free(Frame frame) { memory_.free(cpu_, frame, small_order); }

    Memory& memory_;
    Memmap& map_;
    Zone& zone_;
    KernelRules kernel_;
    unsigned cpu_;
    const std::vector<bool>& nobodys_;
    std::vector<Move>& moves_;
    Unit source_;             // where the migrate scanner is
    std::uint32_t zone_end_;  // a frame, as target_ is:
    std::uint32_t target_;    // where the free scanner is
    std::vector<Frame> sources_, targets_;
};

}  // namespace

std::vector<Move> compact(Memory& memory, unsigned cpu) {
    std::vector<Move> moves;
    const std::vector<bool> nobodys = memory.per_cpu_frames();
    for (Zone& zone : memory.zones()) ZoneCompaction(memory, zone, cpu, nobodys, moves).run();
    return moves;
}

}  // namespace pagelens
