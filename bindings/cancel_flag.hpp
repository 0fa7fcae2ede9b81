#pragma once

#include <atomic>
#include <memory>

#include "core/replay/under_way.hpp"

namespace pagelens {

// Set by another thread, or by a signal handler, to stop a replay, which says how far it is.
class CancelFlag {
  public:
    void set() { *flag_ = true; }
    [[nodiscard]] bool is_set() const { return flag_->load(); }
    // Returns a flag that is set with this one, for a piece of the work that says how far it is.
    [[nodiscard]] CancelFlag piece() const {
        CancelFlag found;
        found.flag_ = flag_;
        return found;
    }
    [[nodiscard]] float share() const { return share_->load(); }
    [[nodiscard]] UnderWay under_way() const { return {*flag_, share_.get()}; }

  private:
    std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<float>> share_ = std::make_shared<std::atomic<float>>(0.0f);
};

}  // namespace pagelens
