#include "core/accesses/program.hpp"

namespace pagelens {

std::span<const Program::PageUse> Program::page_uses() const {
    std::call_once(uses_known_, [this] {
        uses_.resize(pages().size());
        for_each_op(*this, [this](const Op& op) {
            if (op.kind() == OpKind::map_write) uses_[op.page].written = true;
            if (op.kind() == OpKind::map_read && op.lines != 0) uses_[op.page].shows_file = true;
        });
    });
    return uses_;
}

}  // namespace pagelens
