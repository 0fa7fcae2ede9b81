// Finds the pages that a forked child has of its parent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagelens {

struct PageRun {
    std::uint64_t first, count;
    friend bool operator==(const PageRun&, const PageRun&) = default;
};

// Returns the pages of anonymous memory that has frames, in runs that lie in one mapping each:
// those of private mappings that show no file, or that have been written since. `folder`: a
// process's in /proc.
std::vector<PageRun> pages_in_memory(const std::string& folder);

}  // namespace pagelens
