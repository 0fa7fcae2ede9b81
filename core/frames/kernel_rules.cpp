#include "core/frames/kernel_rules.hpp"

#include <stdexcept>
#include <string>

namespace pagelens {

KernelRules kernel_rules(std::string_view version) {
    if (version == "6.1") return {};
    if (version == "4.4") {
        return {
            .new_memory_to_tail = false,
            .moved_to_tail = false,
            .no_fragment = false,
            .steals_smallest = false,
            .takes_smallest_stolen = false,
            .claims_alike = false,
            .fair_zones = true,
            .large_per_cpu_blocks = false,
            .doubles_freed_batch = false,
            .frees_in_turns = true,
            .batch_kilobytes = 512,
            .high_in_batches = 6,
            .most_min_free_kilobytes = 65536,
            .watermark_scale = 0,
            .reclaims_every_zone = true,
            .compacts_in_strides = false,
            .finishes_pageblocks = false,
            .compacts_to_min = false,
        };
    }
    throw std::invalid_argument("kernel: '" + std::string(version) +
                                "' is not modelled; 6.1 and 4.4 are");
}

}  // namespace pagelens
