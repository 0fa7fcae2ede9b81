#include "core/accesses/program.hpp"

namespace pagelens {

std::span<const std::uint8_t> Program::written() const {
    std::call_once(written_known_, [this] {
        written_.resize(pages().size());
        const auto cursor = open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
            for (const Op& op : ops) {
                if (op.kind() == OpKind::map_write) written_[op.page] = 1;
            }
        }
    });
    return written_;
}

}  // namespace pagelens
