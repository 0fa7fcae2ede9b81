#include "bindings/register.hpp"

namespace pagelens {

void register_replay(nanobind::module_&) {}

}  // namespace pagelens
