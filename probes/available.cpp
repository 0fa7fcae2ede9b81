#include "probes/available.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace pagelens::probes {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

// The names of one version's files.
struct Version {
    const char *limit, *usage, *unused_cache;
};
constexpr Version version_1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Version version_2{"memory.max", "memory.current", "inactive_file"};

std::optional<std::size_t> number(const fs::path& path) {  // none of "max"
    std::size_t value = 0;
    if (std::ifstream file(path); file >> value) return value;
    return std::nullopt;
}

// The number behind a name at the begin of a line.
std::optional<std::size_t> number_of(const fs::path& path, const std::string& name) {
    std::ifstream file(path);
    std::string word;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::size_t value = 0;
        if (words >> word >> value && word == name) return value;
    }
    return std::nullopt;
}

std::size_t left_in(const fs::path& folder, const Version& version) {
    const auto limit = number(folder / version.limit), usage = number(folder / version.usage);
    if (!limit || !usage) return unlimited;
    const std::size_t cache = number_of(folder / "memory.stat", version.unused_cache).value_or(0);
    const std::size_t used = *usage - std::min(*usage, cache);
    return *limit - std::min(*limit, used);
}

// A container may see its own group as the root of the mount and name it by the host's path: groups
// that are not there are left out.
std::size_t left_up_from(const fs::path& root, fs::path group, const Version& version) {
    std::size_t least = left_in(root, version);
    for (; group.has_relative_path(); group = group.parent_path()) {
        least = std::min(least, left_in(root / group.relative_path(), version));
    }
    return least;
}

std::size_t left_in_groups(const fs::path& proc, const fs::path& cgroups) {
    std::size_t least = unlimited;
    std::ifstream file(proc / "self/cgroup");
    for (std::string line; std::getline(file, line);) {  // number:controllers:path
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const fs::path group = line.substr(second + 1);
        if (controllers.empty()) {
            least = std::min({least, left_up_from(cgroups, group, version_2),
                              left_up_from(cgroups / "unified", group, version_2)});
        } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
            least = std::min(least, left_up_from(cgroups / "memory", group, version_1));
        }
    }
    return least;
}

}  // namespace

std::size_t available_bytes(const fs::path& proc, const fs::path& cgroups) {
    const auto kib = number_of(proc / "meminfo", "MemAvailable:");
    return std::min(kib ? *kib * 1024 : unlimited, left_in_groups(proc, cgroups));
}

}  // namespace pagelens::probes
