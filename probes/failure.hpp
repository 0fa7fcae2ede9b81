// A refusal by the operating system, with its errno. The binding makes an OSError of it. A wrong
// request is a std::invalid_argument.
#pragma once

#include <stdexcept>
#include <string>

namespace pagelens::probes {

class Failure : public std::runtime_error {
  public:
    Failure(int error, const std::string& what) : std::runtime_error(what), error_(error) {}
    [[nodiscard]] int error() const { return error_; }

  private:
    int error_;
};

}  // namespace pagelens::probes
