#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/replay/rank_pages.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

using Cpus = std::map<std::uint32_t, unsigned>;  // by frame

// Hands out frame after frame, and notes which CPU asked for each and which gave it back.
class NotedSource final : public FrameSource {
  public:
    NotedSource(Cpus& asked, Cpus& given_back) : asked_(asked), given_back_(given_back) {}
    std::optional<Frame> alloc(const Request& request) override {
        asked_[next_] = request.cpu;
        return Frame(next_++);
    }
    void free(const Request& request, Frame frame) override {
        given_back_[frame.raw()] = request.cpu;
    }

  private:
    std::uint32_t next_ = 1;
    Cpus &asked_, &given_back_;
};

class NotedPlacement final : public Placement {
  public:
    std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<NotedSource>(asked, given_back);
    }
    std::uint32_t frames() const override { return 1024; }
    mutable Cpus asked, given_back;
};

}  // namespace

TEST_CASE("a rank's frames go back through the CPU that it runs on") {
    constexpr std::uint32_t ranks = 3, pages = 4;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(page);
    const reference::ListedProgram program({}, std::move(addresses), 1, 1, 1);
    NumaPlacing numa;
    numa.cpus = {0, 12, 24};
    numa.node_of_cpu.assign(36, 0);
    numa.end_of_node = {1024};
    numa.policies = {NumaPolicy{}};
    for (const NumaPlacing* given :
         {static_cast<const NumaPlacing*>(nullptr), &std::as_const(numa)}) {
        const NotedPlacement placement;
        RankPages mapped(program, placement, ranks, Sampling(), RankPages::Listed::covered,
                         SlotPopulation(0, 0), 0, given);
        const auto ignore = [](std::uint32_t, std::uint32_t, std::uint32_t) {};
        for (std::uint32_t page = 0; page + 1 < pages; ++page) mapped.map_write(page, ignore);
        mapped.unmap(0, pages - 1);
        mapped.map_write(pages - 1,
                         ignore);  // what is given back goes before the next one is asked for
        CHECK(placement.given_back.size() == (pages - 1) * ranks);
        for (const auto& [frame, cpu] : placement.given_back)
            CHECK(cpu == placement.asked.at(frame));
    }
}
