#include "probes/stop.hpp"

#include <atomic>

namespace pagelens::probes {
namespace {

std::atomic<bool> requested{false};

}  // namespace

void request_stop(bool stop) { requested.store(stop, std::memory_order_relaxed); }

bool stop_requested() { return requested.load(std::memory_order_relaxed); }

void check_stop() {
    if (stop_requested()) throw Stopped();
}

}  // namespace pagelens::probes
