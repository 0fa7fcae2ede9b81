#include "core/replay/excerpt.hpp"

#include <bit>

namespace pagelens {

std::vector<std::uint64_t> lines_by_phase(const Program& program) {
    std::vector<std::uint64_t> lines(program.phases());
    unsigned phase = 0;
    const auto cursor = program.open();
    for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
        for (const Op& op : ops) {
            switch (op.kind()) {
                case OpKind::fetch:
                case OpKind::write_back:
                case OpKind::stream_store:
                    lines[phase] += static_cast<unsigned>(std::popcount(op.lines));
                    break;
                case OpKind::map_write:
                    lines[phase] += lines_per_page;
                    break;
                case OpKind::phase:
                    phase = op.page;
                    break;
                case OpKind::touch:
                case OpKind::map_read:
                case OpKind::unmap:
                    break;
            }
        }
    }
    return lines;
}

}  // namespace pagelens
