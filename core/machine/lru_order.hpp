// The ways of each set in the order of their latest use, as a circle of links a set: each step
// takes the same time however many ways there are. The way used longest ago stands beside the
// latest one, so its use turns the circle by one place and changes no link.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens {

class LruOrder {
  public:
    static constexpr std::uint32_t most_ways = 1u << 15;

    LruOrder(std::size_t sets, std::uint32_t ways)
        : ways_(ways), links_(sets * ways), latest_(sets, 0) {
        assert(ways >= 1 && ways <= most_ways);
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const auto way = static_cast<std::uint32_t>(i % ways);
            links_[i].later = static_cast<std::uint16_t>((way + ways - 1) % ways);
            links_[i].earlier = static_cast<std::uint16_t>((way + 1) % ways);
        }
    }

    // Uses the way used longest ago, and returns which one that is.
    std::uint32_t renew_oldest(std::size_t set) {
        return latest_[set] = links(set)[latest_[set]].later;
    }
    // Notes that `way` is used.
    void renew(std::size_t set, std::uint32_t way) {
        const std::uint16_t latest = latest_[set];
        if (way == latest) return;
        Link* const links = this->links(set);
        const std::uint16_t later = links[way].later, earlier = links[way].earlier;
        links[later].earlier = earlier;
        links[earlier].later = later;
        const std::uint16_t oldest = links[latest].later;
        const auto renewed = static_cast<std::uint16_t>(way);
        links[renewed] = {oldest, latest};
        links[oldest].earlier = renewed;
        links[latest].later = renewed;
        latest_[set] = renewed;
    }
    // Makes `way` the one used longest ago.
    void retire(std::size_t set, std::uint32_t way) {
        renew(set, way);
        latest_[set] = links(set)[way].earlier;
    }

  private:
    struct Link {
        std::uint16_t later, earlier;  // of the latest way, `later` is the one used longest ago
    };

    Link* links(std::size_t set) { return links_.data() + set * ways_; }

    std::uint32_t ways_;
    std::vector<Link> links_;            // [set * ways_ + way]
    std::vector<std::uint16_t> latest_;  // [set]
};

}  // namespace pagelens
