#include "core/replay/compulsory.hpp"

#include <bit>

#include "core/replay/page_copies.hpp"

namespace pagelens {

std::vector<Compulsory> compulsory_by_phase(const Program& program, std::uint32_t ranks) {
    std::vector<Compulsory> phases(program.phases());
    PageCopies copies(program.pages().size(), ranks);
    std::vector<std::uint64_t> held(program.pages().size());  // [page] lines in the caches
    unsigned phase = 0;
    for_each_op(program, [&](const Op& op) {
        const bool anew = copies.step(op);
        const auto moved = [&](std::uint64_t lines) {
            return std::uint64_t{copies.of(op.page)} * static_cast<unsigned>(std::popcount(lines));
        };
        switch (op.kind()) {
            case OpKind::fetch:
                phases[phase].reads += moved(op.lines & ~held[op.page]);
                held[op.page] |= op.lines;
                break;
            case OpKind::stream_store:
                phases[phase].writes += moved(op.lines);
                held[op.page] &= ~op.lines;  // they leave all caches
                break;
            case OpKind::map_write:
                if (anew) phases[phase].writes += moved(~0ull);
                [[fallthrough]];
            case OpKind::map_read:
                if (anew) held[op.page] = 0;
                break;
            case OpKind::phase:
                phase = op.page;
                break;
            case OpKind::write_back:  // whole lines: there from now on
                held[op.page] |= op.lines;
                break;
            case OpKind::skip:  // not in whole programs
            case OpKind::touch:
            case OpKind::unmap:
                break;
        }
    });
    return phases;
}

}  // namespace pagelens
