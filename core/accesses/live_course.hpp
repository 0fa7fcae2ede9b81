// The live bytes of objects in the course of a run: the most within each moment. They are kept as
// changes, because few of many objects change in any one moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pagelens {

class LiveCourse {
  public:
    explicit LiveCourse(std::size_t objects) : objects_(objects) {}

    // Returns the live bytes of the object after that.
    std::uint64_t grow(std::uint32_t object, std::uint64_t bytes) {
        Object& its = touch(object);
        its.live += bytes;
        its.most = std::max(its.most, its.live);
        return its.live;
    }
    void shrink(std::uint32_t object, std::uint64_t bytes) { touch(object).live -= bytes; }

    void end_moment() {
        const auto still = std::remove_if(touched_.begin(), touched_.end(), [this](auto object) {
            Object& its = objects_[object];
            if (its.most != its.last) changes_.push_back({moments_, object, its.last = its.most});
            its.most = its.live;
            its.touched = its.most != its.last;
            return !its.touched;
        });
        touched_.erase(still, touched_.end());
        ++moments_;
    }

    [[nodiscard]] std::uint32_t moments() const { return moments_; }
    // [moment * objects + object]: the most bytes live at a time within a moment.
    [[nodiscard]] std::vector<std::uint64_t> bytes() const {
        std::vector<std::uint64_t> table(moments_ * objects_.size());
        auto next = changes_.begin();
        for (std::uint32_t moment = 0; moment < moments_; ++moment) {
            const auto row = table.begin() + static_cast<std::ptrdiff_t>(moment * objects_.size());
            if (moment != 0) std::copy(row - std::ssize(objects_), row, row);
            for (; next != changes_.end() && next->moment == moment; ++next)
                row[next->object] = next->bytes;
        }
        return table;
    }

  private:
    struct Object {
        std::uint64_t live = 0;
        std::uint64_t most = 0;  // in this moment
        std::uint64_t last = 0;  // of the changes
        bool touched = false;
    };
    struct Change {
        std::uint32_t moment, object;
        std::uint64_t bytes;  // from that moment on
    };

    Object& touch(std::uint32_t object) {
        Object& its = objects_[object];
        if (!its.touched) touched_.push_back(object);
        its.touched = true;
        return its;
    }

    std::vector<Object> objects_;
    std::vector<std::uint32_t> touched_;  // whose present moment may differ from the last change
    std::vector<Change> changes_;         // by moment
    std::uint32_t moments_ = 0;
};

}  // namespace pagelens
