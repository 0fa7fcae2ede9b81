#pragma once

#include <atomic>

namespace pagelens {

// Set by another thread, or by a signal handler, to stop a replay.
class CancelFlag {
  public:
    void set() { flag_ = true; }
    [[nodiscard]] const std::atomic<bool>& get() const { return flag_; }

  private:
    std::atomic<bool> flag_{false};
};

}  // namespace pagelens
