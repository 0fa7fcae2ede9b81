#include <nanobind/stl/array.h>

#include "bindings/register.hpp"
#include "core/machine/cpuid.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_host(nb::module_& m) {
    m.def(
        "cpuid", &cpuid, "leaf"_a, "subleaf"_a,
        "EAX, EBX, ECX, EDX of the processor that this runs on; zeros where it has no such leaf.");
}

}  // namespace pagelens
