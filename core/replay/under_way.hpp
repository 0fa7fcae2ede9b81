// What a replay tells those who wait for it, and what they tell it.
#pragma once

#include <atomic>
#include <stdexcept>

namespace pagelens {

class Cancelled : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class UnderWay {
  public:
    // Ends what is under way soon after `cancelled` became true. `share`, if given, is how much of
    // it is done, from 0 to 1. Both outlive this.
    UnderWay(const std::atomic<bool>& cancelled,  // NOLINT(google-explicit-constructor)
             std::atomic<float>* share = nullptr)
        : cancelled_(cancelled), share_(share) {}

    // Throws Cancelled.
    void stop_if_cancelled() const {
        if (cancelled_.load(std::memory_order_relaxed)) throw Cancelled("replay cancelled");
    }
    // Throws Cancelled.
    void at(float share) const {
        stop_if_cancelled();
        if (share_ != nullptr) share_->store(share, std::memory_order_relaxed);
    }

  private:
    const std::atomic<bool>& cancelled_;
    std::atomic<float>* share_;
};

}  // namespace pagelens
