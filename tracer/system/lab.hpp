// The lab's counts in a guest: phases, their counters, and the report of each.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/replay/live.hpp"

namespace pagelens {

struct LabOptions {
    std::string results;  // a file: a line of JSON for each phase that ended
    std::string data;     // a file: the bytes that the guest handed over
    LiveMachine machine;
};

// "results=FILE", "data=FILE", "cores=4", "l1=8" (ways), "l2=1024:16:2" (sets, ways, cores),
// "cache=32768:1" (slots of a node, ways), "nodes=0:262144" (first frames), "frames=1048576".
// Throws std::invalid_argument.
LabOptions parse_lab_options(int argc, const char* const* argv);

class Lab {
  public:
    explicit Lab(const LabOptions& options);

    LiveCaches caches;
    std::uint64_t instructions = 0;  // of all cores, since the last report, pauses included
    bool paused = false;  // then no access is hidden, and those that are not hidden do not count

    // Counting begins; regions of the program may divide the phase.
    void begin(const std::string& phase);
    void begin_region(const std::string& name);
    void end_region(const std::string& name);
    // Counting ends: reports the phase and its regions, and hands over which frames programs used
    // in it (a bitmap of all frames, as mark() of tracer/guest/job.c has it).
    void end();
    // `frame` is used at `address`, and is given back; the kernel's own addresses do not count, nor
    // what lies behind the guest's memory (no_frame too).
    std::uint32_t used(std::uint64_t address, std::uint32_t frame) {
        if (address >> 63 == 0 && frame / 8 < used_.size())
            used_[frame / 8] |= static_cast<char>(1 << frame % 8);
        return frame;
    }
    // Instructions from here to resume() are the lab's own.
    void pause();
    void resume();
    // Bytes that the guest hands over.
    void keep(const std::vector<char>& bytes);
    void report_address(std::uint64_t address, std::uint32_t frame);

  private:
    struct Phase {
        LiveCaches::Counts counts{};
        std::vector<NodeLines> nodes;
        std::uint64_t instructions = 0, accesses = 0;
    };
    void settle();  // what was counted since the last time belongs to the innermost region

    std::ofstream results_, data_;
    std::vector<std::string> open_;  // the phase and its open regions, innermost last
    std::vector<std::string> order_;
    std::map<std::string, Phase> phases_;
    std::uint64_t instructions_at_pause_ = 0;
    std::vector<char> used_;
};

}  // namespace pagelens
