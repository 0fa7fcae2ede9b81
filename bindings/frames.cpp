#include "bindings/register.hpp"

namespace pagelens {

void register_frames(nanobind::module_&) {}

}  // namespace pagelens
