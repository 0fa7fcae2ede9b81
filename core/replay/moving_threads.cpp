#include "core/replay/moving_threads.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "core/accesses/program_around.hpp"
#include "core/random/philox.hpp"

namespace pagelens {
namespace {

class ThreadMover {
  public:
    explicit ThreadMover(const MovingThreads& moving)
        : node_of_thread_(moving.node_of_thread),
          line_s_(moving.line_s),
          // Each exchange moves two threads.
          period_s_(2 * moving.stay_s / static_cast<double>(node_of_thread_.size())),
          next_s_(period_s_),
          random_(moving.seed, 0, 0, Stream::threads),
          are_apart_(std::ranges::adjacent_find(node_of_thread_, std::ranges::not_equal_to()) !=
                     node_of_thread_.end()) {}

    void operator()(const Op& op, std::vector<Op>& batch) {
        if (op.kind() == OpKind::phase) phase_ = op.page;
        const bool moves_lines = op.kind() == OpKind::fetch || op.kind() == OpKind::write_back ||
                                 op.kind() == OpKind::stream_store;
        if (moves_lines) now_s_ += line_s_[phase_] * std::popcount(op.lines);
        for (; are_apart_ && now_s_ >= next_s_; next_s_ += period_s_) batch.push_back(exchange());
    }

  private:
    Op exchange() {
        const std::uint32_t one = drawn();
        std::uint32_t other = drawn();
        while (node_of_thread_[other] == node_of_thread_[one]) other = drawn();
        std::swap(node_of_thread_[one], node_of_thread_[other]);
        return make_op(OpKind::swap_threads, one, other);
    }
    std::uint32_t drawn() {
        return random_.below(static_cast<std::uint32_t>(node_of_thread_.size()));
    }

    std::vector<std::uint8_t> node_of_thread_;
    std::vector<double> line_s_;
    double period_s_, next_s_, now_s_ = 0;
    Random random_;
    bool are_apart_;  // on several nodes
    unsigned phase_ = 0;
};

class UnboundProgram final : public ProgramAround {
  public:
    UnboundProgram(std::shared_ptr<const Program> program, MovingThreads moving)
        : ProgramAround(std::move(program)), moving_(std::move(moving)) {
        const std::size_t given = moving_.node_of_thread.size();
        if (given == 0 || given % threads() != 0 || moving_.line_s.size() != phases() ||
            !(moving_.stay_s > 0))
            throw std::invalid_argument(
                "moving: needs a node for each thread, a time for each phase, and a stay above 0");
    }
    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        return std::make_unique<CursorAround<ThreadMover>>(inner(), ThreadMover(moving_));
    }

  private:
    MovingThreads moving_;
};

}  // namespace

std::unique_ptr<Program> with_moving_threads(std::shared_ptr<const Program> program,
                                             MovingThreads moving) {
    return std::make_unique<UnboundProgram>(std::move(program), std::move(moving));
}

}  // namespace pagelens
