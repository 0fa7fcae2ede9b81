// The yardstick of bench_frames.py: the plainest buddy system, a page at a time, aged by the same
// jobs as a node. One zone, no migrate types, no per-cpu lists, nothing prefetched.
//
//     plain_buddy FRAMES JOBS SMALLEST LARGEST PROCESSES LONGEST_TURN CACHE_INTERVAL CACHE_SHARE
//
// Sizes in frames. Prints the user time of the jobs in seconds.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/random/philox.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t none = ~0u;
constexpr std::uint8_t orders = 11, taken = 255;

class Buddy {
  public:
    explicit Buddy(std::uint32_t frames) : order_(frames, taken), next_(frames), previous_(frames) {
        head_.fill(none);
        for (std::uint32_t frame = 0; frame + (1u << (orders - 1)) <= frames;) {
            push(frame, orders - 1);
            frame += 1u << (orders - 1);
        }
    }
    std::uint32_t take() {
        std::uint8_t order = 0;
        while (order < orders && head_[order] == none) ++order;
        if (order == orders) return none;
        const std::uint32_t frame = head_[order];
        remove(frame, order);
        while (order-- > 0) push(frame + (1u << order), order);
        return frame;
    }
    void give(std::uint32_t frame) {
        std::uint8_t order = 0;
        for (; order + 1 < orders; ++order) {
            const std::uint32_t buddy = frame ^ (1u << order);
            if (buddy >= order_.size() || order_[buddy] != order) break;
            remove(buddy, order);
            frame &= ~(1u << order);
        }
        push(frame, order);
    }

  private:
    void push(std::uint32_t frame, std::uint8_t order) {
        order_[frame] = order;
        next_[frame] = head_[order];
        previous_[frame] = none;
        if (head_[order] != none) previous_[head_[order]] = frame;
        head_[order] = frame;
    }
    void remove(std::uint32_t frame, std::uint8_t order) {
        order_[frame] = taken;
        (previous_[frame] == none ? head_[order] : next_[previous_[frame]]) = next_[frame];
        if (next_[frame] != none) previous_[next_[frame]] = previous_[frame];
    }

    std::array<std::uint32_t, orders> head_;
    std::vector<std::uint8_t> order_;  // of the free block that begins here
    std::vector<std::uint32_t> next_, previous_;
};

template <class T>
void shuffle_items(std::vector<T>& items, Random& random) {
    for (auto left = static_cast<std::uint32_t>(items.size()); left > 1; --left) {
        std::swap(items[left - 1], items[random.below(left)]);
    }
}

double user_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 9) return 2;
    const auto number = [&](int i) { return std::strtod(arguments[i], nullptr); };
    const auto whole = [&](int i) { return static_cast<std::uint32_t>(number(i)); };
    const std::uint32_t frames = whole(1), processes = whole(5), longest_turn = whole(6);
    const double interval = number(7);
    const auto cached = static_cast<std::size_t>(number(8) * frames);
    Buddy buddy(frames);
    Random random(1, 0, 0, Stream::history);
    std::vector<double> sizes(whole(2));
    for (double& size : sizes) size = random.log_uniform(number(3), number(4));

    std::vector<std::uint32_t> cache;
    const double begin = user_seconds();
    for (const double size : sizes) {
        std::vector<std::vector<std::uint32_t>> pages(processes);
        for (double got = 0; got < size;) {
            auto& process = pages[random.small(processes)];
            for (std::uint32_t turn = 1 + random.small(longest_turn); turn > 0; --turn, ++got) {
                const std::uint32_t frame = buddy.take();
                if (frame == none) return 1;
                process.push_back(frame);
                if (random.small_uniform() * interval < 1) cache.push_back(buddy.take());
            }
        }
        shuffle_items(pages, random);
        for (const auto& process : pages) {
            for (const std::uint32_t frame : process) buddy.give(frame);
        }
        shuffle_items(cache, random);
        for (; cache.size() > cached; cache.pop_back()) buddy.give(cache.back());
    }
    std::printf("%.3f\n", user_seconds() - begin);
}
