#include <doctest/doctest.h>

#include <map>

#include "core/random/philox.hpp"
#include "core/replay/frame_objects.hpp"

using namespace pagelens;

TEST_CASE("frame objects: each frame has the object that used it last, or none") {
    constexpr std::uint32_t frames = 1000;
    Random random(1, 0, 0, Stream::history);
    FrameObjects fast(frames, 10);  // more are used than were expected
    std::map<std::uint32_t, std::uint16_t> slow;
    for (int i = 0; i < 2000; ++i) {
        const std::uint32_t frame =
            random.below(2) == 0 ? frames - 1 - random.below(40) : random.below(frames);
        const auto object = static_cast<std::uint16_t>(random.below(5));
        const std::uint16_t before = slow.contains(frame) ? slow[frame] : FrameObjects::none;
        REQUIRE(fast[frame] == before);
        REQUIRE(fast.set(frame, object) == before);
        slow[frame] = object;
    }
    for (std::uint32_t frame = 0; frame < frames; ++frame)
        REQUIRE(fast[frame] == (slow.contains(frame) ? slow[frame] : FrameObjects::none));
}
