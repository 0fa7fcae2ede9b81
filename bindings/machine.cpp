#include "bindings/register.hpp"

namespace pagelens {

void register_machine(nanobind::module_&) {}

}  // namespace pagelens
