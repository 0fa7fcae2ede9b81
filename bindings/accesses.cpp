#include "bindings/register.hpp"

namespace pagelens {

void register_accesses(nanobind::module_&) {}

}  // namespace pagelens
