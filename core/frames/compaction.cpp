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
          cpu_(cpu),
          nobodys_(nobodys),
          moves_(moves) {
        source_ = zone.begin();
        target_block_ = map_.pageblock_begin(zone.end() - 1);
        target_ = std::max(target_block_, zone.begin());
    }

    void run() {
        while (collect_sources()) {
            for (; !sources_.empty(); sources_.pop_back()) {
                if (targets_.empty() && !collect_targets()) return finish();
                move(sources_.back(), targets_.back());
                targets_.pop_back();
            }
        }
        finish();
    }

  private:
    // The next movable pages below the free scanner's pageblock: up to a cluster of one pageblock.
    // The last one found is moved first, as the kernel's list has it.
    bool collect_sources() {
        while (sources_.empty() && source_ < target_block_) {
            const Unit end =
                std::min(map_.pageblock_begin(source_) + map_.pageblock_units(), target_block_);
            while (source_ < end && sources_.size() < cluster_pages) {
                const Unit free = source_ == map_.pageblock_begin(source_)
                                      ? map_.free_block_at(source_)
                                      : (map_.is_free(source_) ? source_ : no_unit);
                if (free != no_unit) {
                    source_ = free + (1u << map_.free_level(free));
                    continue;
                }
                map_.for_parts(source_, map_.movable_parts(source_), [this](Frame page) {
                    if (!nobodys_[page.raw()]) sources_.push_back(page);
                });
                ++source_;
            }
        }
        return !sources_.empty();
    }

    // Takes free pages out of the lists, from the zone's last pageblock downwards, until there are
    // as many as are to be moved.
    bool collect_targets() {
        while (targets_.size() < sources_.size() && target_block_ > source_) {
            if (suitable(target_block_)) take_targets();
            if (targets_.size() >= sources_.size()) break;
            if (target_block_ == map_.pageblock_begin(zone_.begin())) break;
            target_block_ -= map_.pageblock_units();
            target_ = std::max(target_block_, zone_.begin());
        }
        return !targets_.empty();
    }

    // Wholly free pageblocks are left whole; only movable ones receive.
    [[nodiscard]] bool suitable(Unit block) const {
        if (map_.type_of(block) != MigrateType::movable) return false;
        const Unit free = map_.free_block_at(block);
        return free == no_unit || map_.free_level(free) < map_.pageblock_level();
    }

    void take_targets() {
        const Unit end = std::min(target_block_ + map_.pageblock_units(), zone_.end());
        while (target_ < end && targets_.size() < sources_.size()) {
            if (!map_.is_free(target_)) {
                add_targets(target_, zone_.take_parts(map_, target_, MigrateType::movable));
                ++target_;
                continue;
            }
            const unsigned level = map_.free_level(target_);
            zone_.remove(map_, target_, level);
            for (const Unit stop = target_ + (1u << level); target_ < stop; ++target_) {
                map_.set_allocated(target_, 0, MigrateType::movable);
                add_targets(target_, map_.whole());
            }
        }
    }
    void add_targets(Unit unit, Parts parts) {
        map_.for_parts(unit, parts, [this](Frame frame) { targets_.push_back(frame); });
    }

    void move(Frame from, Frame to) {
        moves_.push_back({from, to});
        memory_.free(cpu_, from, small_order);
    }

    void finish() {
        for (const Frame frame : targets_) memory_.free(cpu_, frame, small_order);
    }

    Memory& memory_;
    Memmap& map_;
    Zone& zone_;
    unsigned cpu_;
    const std::vector<bool>& nobodys_;
    std::vector<Move>& moves_;
    Unit source_;        // where the migrate scanner is
    Unit target_block_;  // the pageblock where the free scanner is
    Unit target_;        // and where in it
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
