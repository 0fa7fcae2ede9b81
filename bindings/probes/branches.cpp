#include "probes/branches.hpp"

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_branches(nb::module_& m) {
    using namespace probes;
    nb::class_<BranchesResult>(m, "BranchesResult")
        .def_prop_ro("seconds", &seconds_of<BranchesResult>, nb::rv_policy::move,
                     "float64[repeats]: of `branches` branches each.");
    m.attr("most_branches") = most_branches;
    m.def("branches", &branches, nb::call_guard<nb::gil_scoped_release>(), "branches"_a, "random"_a,
          "repeats"_a, "cpu"_a, "seed"_a,
          "Reads one byte after the other and branches by it. With `random` every second guess of "
          "a branch is wrong, whatever foresees it; otherwise all branches go the same way.");
}

}  // namespace pagelens
