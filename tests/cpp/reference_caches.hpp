// Caches written to be obviously right: a list of lines a set, most recent first. What the fast
// versions must equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

namespace pagelens::reference {

struct Line {
    std::uint64_t number;
    bool dirty;
};

struct Outcome {
    bool hit;
    std::optional<Line> victim;
};

class LruCache {
  public:
    LruCache(std::uint64_t sets, std::size_t ways) : sets_(sets), ways_(ways) {}

    Outcome access(std::uint64_t line, bool write) {
        std::list<Line>& set = sets_[line % sets_.size()];
        const auto found =
            std::find_if(set.begin(), set.end(), [&](const Line& l) { return l.number == line; });
        if (found != set.end()) {
            set.splice(set.begin(), set, found);
            set.front().dirty |= write;
            return {true, std::nullopt};
        }
        set.push_front({line, write});
        if (set.size() <= ways_) return {false, std::nullopt};
        const Line victim = set.back();
        set.pop_back();
        return {false, victim};
    }

    // Takes the line out; true if it was dirty.
    bool remove(std::uint64_t line) {
        std::list<Line>& set = sets_[line % sets_.size()];
        bool dirty = false;
        set.remove_if([&](const Line& l) {
            dirty |= l.number == line && l.dirty;
            return l.number == line;
        });
        return dirty;
    }

  private:
    std::vector<std::list<Line>> sets_;
    std::size_t ways_;
};

}  // namespace pagelens::reference
