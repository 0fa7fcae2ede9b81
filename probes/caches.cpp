#include "probes/caches.hpp"

#include <fstream>
#include <map>
#include <string>

namespace pagelens::probes {

std::size_t last_level_bytes(std::span<const int> cpus) {
    std::map<std::string, std::size_t> caches;  // by the processors that share one
    for (const int cpu : cpus) {
        const std::string folder =
            "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
        int highest = 0;
        std::string sharers;
        std::size_t bytes = 0;
        for (int index = 0;; ++index) {
            const std::string cache = folder + std::to_string(index);
            int level = 0;
            std::size_t kib = 0;
            if (!(std::ifstream(cache + "/level") >> level)) break;
            std::ifstream(cache + "/size") >> kib;  // "32768K"
            if (level <= highest) continue;
            highest = level;
            bytes = kib * 1024;
            std::ifstream(cache + "/shared_cpu_list") >> sharers;
        }
        caches[sharers] = bytes;
    }
    std::size_t total = 0;
    for (const auto& [sharers, bytes] : caches) total += bytes;
    return total;
}

}  // namespace pagelens::probes
