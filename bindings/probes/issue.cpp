#include "probes/issue.hpp"

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_issue(nb::module_& m) {
    using namespace probes;
    m.def(
        "issue",
        [](bool typical, std::size_t repeats, int cpu) {
            const Mix mix = typical ? Mix::typical : Mix::adds_and_loads;
            std::vector<double> rates;
            {
                const nb::gil_scoped_release released;
                rates = issue(mix, repeats, cpu).rates;
            }
            return moved(std::move(rates));
        },
        "typical"_a, "repeats"_a, "cpu"_a,
        "float64[repeats]: operations that a core begins in a cycle, of two additions for each "
        "load, or of a `typical` mix. All data are in L1, and nothing else holds the core up.");
}

}  // namespace pagelens
