#include "core/replay/compulsory.hpp"

#include <algorithm>
#include <bit>

namespace pagelens {

std::vector<Compulsory> compulsory_by_phase(const Program& program) {
    std::vector<Compulsory> phases(program.phases());
    std::vector<std::uint8_t> mapped(program.pages().size());
    std::vector<std::uint64_t> held(program.pages().size());  // [page] lines in the caches
    unsigned phase = 0;
    for_each_op(program, [&](const Op& op) {
        switch (op.kind()) {
            case OpKind::fetch:
                if (mapped[op.page] == 0) break;  // the zero page
                phases[phase].reads +=
                    static_cast<unsigned>(std::popcount(op.lines & ~held[op.page]));
                held[op.page] |= op.lines;
                break;
            case OpKind::stream_store:
                if (mapped[op.page] == 0) break;
                phases[phase].writes += static_cast<unsigned>(std::popcount(op.lines));
                held[op.page] &= ~op.lines;  // they leave all caches
                break;
            case OpKind::map_write:
                if (mapped[op.page] != 0) break;
                mapped[op.page] = 1;
                phases[phase].writes += lines_per_page;
                break;
            case OpKind::unmap:
                std::fill_n(mapped.begin() + op.page, op.lines, std::uint8_t{0});
                std::fill_n(held.begin() + op.page, op.lines, std::uint64_t{0});
                break;
            case OpKind::phase:
                phase = op.page;
                break;
            case OpKind::write_back:  // whole lines: there from now on
                if (mapped[op.page] != 0) held[op.page] |= op.lines;
                break;
            case OpKind::skip:  // not in whole programs
            case OpKind::touch:
            case OpKind::map_read:
                break;
        }
    });
    return phases;
}

}  // namespace pagelens
