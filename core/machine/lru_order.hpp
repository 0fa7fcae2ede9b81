// The ways of each set in the order of their latest use, as a doubly linked list a set: each step
// takes the same time however many ways there are, and no branch depends on which way it is.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens {

class LruOrder {
  public:
    static constexpr std::uint32_t most_ways = 1u << 15;

    LruOrder(std::size_t sets, std::uint32_t ways) : ways_(ways), links_(sets * (ways + 1)) {
        assert(ways >= 1 && ways <= most_ways);
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const auto way = static_cast<std::uint32_t>(i % (ways + 1));
            links_[i].later = static_cast<std::uint16_t>(way == 0 ? ways : way - 1);
            links_[i].earlier = static_cast<std::uint16_t>(way == ways ? 0 : way + 1);
        }
    }

    // The way used longest ago.
    [[nodiscard]] std::uint32_t oldest(std::size_t set) const {
        return links_[set * (ways_ + 1) + ways_].later;
    }
    // `way` is used.
    void renew(std::size_t set, std::uint32_t way) {
        Link* const links = this->links(set);
        take_out(links, way);
        put_after(links, ways_, way);
    }
    // `way` becomes the one used longest ago.
    void retire(std::size_t set, std::uint32_t way) {
        Link* const links = this->links(set);
        take_out(links, way);
        put_after(links, links[ways_].later, way);
    }

  private:
    // The list is a circle through its end, which is at place `ways`: the latest way is the one
    // `earlier` than the end, the one used longest ago is `later` than it.
    struct Link {
        std::uint16_t later, earlier;
    };

    Link* links(std::size_t set) { return links_.data() + set * (ways_ + 1); }
    static void take_out(Link* links, std::uint32_t way) {
        const Link link = links[way];
        links[link.later].earlier = link.earlier;
        links[link.earlier].later = link.later;
    }
    static void put_after(Link* links, std::uint32_t place, std::uint32_t way) {
        const std::uint16_t earlier = links[place].earlier;
        links[way] = {static_cast<std::uint16_t>(place), earlier};
        links[earlier].later = static_cast<std::uint16_t>(way);
        links[place].earlier = static_cast<std::uint16_t>(way);
    }

    std::uint32_t ways_;
    std::vector<Link> links_;  // ways + 1 a set
};

}  // namespace pagelens
