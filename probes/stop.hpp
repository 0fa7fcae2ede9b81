// Ctrl-C: another thread asks all calls of this process to end soon. They look between repetitions,
// and within what may take long: populating memory, linking a chase, sweeps, iterations, random
// updates.
#pragma once

#include <exception>

namespace pagelens::probes {

class Stopped : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override { return "stopped"; }
};

// Until request_stop(false).
void request_stop(bool stop);
bool stop_requested();
// Throws Stopped where it was asked for: after threads have met, as one alone must not leave.
void check_stop();

}  // namespace pagelens::probes
