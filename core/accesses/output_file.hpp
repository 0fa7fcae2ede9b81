// A file that is appended to from within a program that is not ours and shall not notice: the
// program may count on its descriptors' numbers, and may close all that it finds open and open
// others in their place, as a daemon does when it starts.
//
// So the descriptor lies above what the program may use, where the limits allow it; and before each
// write it is looked at: what is no longer this file is left alone and the file opened again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

namespace pagelens {

class OutputFile {
  public:
    // Creates `path` or empties it. Throws std::system_error.
    explicit OutputFile(std::string path);
    ~OutputFile() { close(); }
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    // All of these return errno or 0. Nothing is written once the file is closed. A file that would
    // grow beyond the program's limit is an error like others, and no signal.
    int append(std::span<const std::uint8_t> bytes);
    // Leaves the first `size` bytes.
    int cut(std::uint64_t size);
    int close();

  private:
    int find();
    bool is_ours() const;

    std::string path_;
    int file_ = -1;
    ::dev_t device_{};
    ::ino_t number_{};
};

}  // namespace pagelens
