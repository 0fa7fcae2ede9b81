#include "core/replay/object_lines.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace pagelens {
namespace {

// The places where a thread used objects last.
class Places {
  public:
    // Returns whether a line is near one of the places. The line takes that one's place, or the
    // oldest one's.
    bool use(std::uint64_t line) {
        for (std::uint64_t& place : places_) {
            if (line - place + reach <= 2 * reach) {
                place = line;
                return true;
            }
        }
        places_[next_++ % places_.size()] = line;
        return false;
    }
    [[nodiscard]] bool used() const { return next_ != 0; }

  private:
    static constexpr std::uint64_t reach = 2;
    std::array<std::uint64_t, 4> places_{~0ull >> 1, ~0ull >> 1, ~0ull >> 1, ~0ull >> 1};
    std::uint32_t next_ = 0;
};

}  // namespace

ObjectLines lines_by_object(const Program& program, bool touched) {
    const std::size_t objects = program.objects(), threads = program.threads();
    ObjectLines lines{std::vector<std::uint64_t>(program.phases() * objects),
                      std::vector<std::uint64_t>(objects), std::vector<std::uint64_t>(objects),
                      std::vector<std::uint32_t>(objects)};
    std::vector<std::uint8_t> mapped(program.pages().size());
    std::vector<Places> places(objects * threads);
    std::size_t phase = 0;
    const auto use = [&](const Op& op) {
        Places& here = places[op.object * threads + op.thread];
        const std::uint64_t first = program.pages()[op.page].raw() * lines_per_page;
        for (std::uint64_t left = op.lines; left != 0; left &= left - 1)
            lines.in_sequence[op.object] +=
                here.use(first + static_cast<unsigned>(std::countr_zero(left)));
        lines.used[op.object] += static_cast<unsigned>(std::popcount(op.lines));
    };
    for_each_op(program, [&](const Op& op) {
        switch (op.kind()) {
            case OpKind::fetch:
            case OpKind::stream_store:
                if (!touched) use(op);
                break;
            case OpKind::touch:
                if (touched) use(op);
                break;
            case OpKind::map_write:
                if (mapped[op.page] != 0) break;
                mapped[op.page] = 1;
                lines.cleared[phase * objects + op.object] += lines_per_page;
                break;
            case OpKind::unmap:
                std::fill_n(mapped.begin() + op.page, op.lines, std::uint8_t{0});
                break;
            case OpKind::phase:
                phase = op.page;
                break;
            case OpKind::write_back:
            case OpKind::map_read:
            case OpKind::skip:
            case OpKind::recall:
            case OpKind::recall_dirty:
            case OpKind::meet:
            case OpKind::hint_fault:
            case OpKind::swap_threads:
                break;
        }
    });
    for (std::size_t i = 0; i < places.size(); ++i) lines.threads[i / threads] += places[i].used();
    return lines;
}

}  // namespace pagelens
