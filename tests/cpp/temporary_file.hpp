// A file name of its own for a test, removed afterwards.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pagelens {

struct TemporaryFile {
    TemporaryFile() {
        path = (std::filesystem::temp_directory_path() / "pagelens-XXXXXX").string();
        const int descriptor = ::mkstemp(path.data());
        if (descriptor < 0) std::abort();
        ::close(descriptor);
    }
    ~TemporaryFile() { std::filesystem::remove(path); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    std::string path;
};

}  // namespace pagelens
