#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/probes/register.hpp"
#include "probes/available.hpp"
#include "probes/ballast.hpp"
#include "probes/clock.hpp"
#include "probes/memory.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_probe_memory(nb::module_& m) {
    using namespace probes;
    using Free = nb::call_guard<nb::gil_scoped_release>;
    nb::enum_<Pages>(m, "Pages", "What a mapping is made of.")
        .value("small", Pages::small, "4 KiB, never more")
        .value("transparent", Pages::transparent, "2 MiB where the kernel finds them, else 4 KiB")
        .value("large", Pages::large, "2 MiB of the pool of hugetlb")
        .value("huge", Pages::huge, "1 GiB of the pool of hugetlb");
    m.attr("most_bytes") = most_bytes;
    m.def("unit_bytes", &unit_bytes, "pages"_a,
          "Bytes of a page of this kind; of a transparent one those of a large.");
    m.def("free_in_pool", &free_in_pool, "pages"_a,
          "Pages of the hugetlb pool that can be had now; 0 where there is none.");
    m.def(
        "available_bytes", [] { return available_bytes(); },
        "What new mappings may take: the least of MemAvailable and of what the control groups of "
        "this process leave it.");
    m.def("timer_resolution", &timer_resolution,
          "Seconds: the shortest time by which two readings of the clock were seen to differ.");

    nb::class_<Memory>(m, "Memory",
                       "A fresh mapping, populated at once by the threads that will use it.")
        .def(
            "__init__",
            [](Memory* self, std::size_t bytes, Pages pages, const std::vector<int>& cpus,
               const std::vector<std::size_t>& arrays) {
                const nb::gil_scoped_release release;
                new (self) Memory(bytes, pages, cpus, arrays);
            },
            "bytes"_a, "pages"_a, "cpus"_a, "arrays"_a,
            "Rounds bytes up to whole pages. Of each array, which begins at arrays[j] bytes, the "
            "thread on cpus[i] "
            "populates the i-th share: first touch puts what a thread uses on its NUMA node. "
            "[0] is one array; stream's begin at 0, d and 2 d, cg's at cg_arrays(...)[:-1].")
        .def_prop_ro("address", &Memory::address, "Virtual address, a multiple of 2 MiB at least.")
        .def_prop_ro("bytes", &Memory::bytes, "In whole pages.")
        .def_prop_ro("pages", &Memory::pages)
        .def("release", &Memory::release, Free(),
             "Gives the frames back; a second time does nothing.")
        .def(
            "frames",
            [](const Memory& memory) {
                std::vector<std::uint64_t> frames;
                {
                    const nb::gil_scoped_release release;
                    frames = memory.frames();
                }
                return moved(std::move(frames));
            },
            "uint64[bytes / 4096]: the frame, in units of 4 KiB, of each 4 KiB page; 0 for one "
            "that "
            "is in no frame now. Empty where the kernel does not show them: that needs "
            "CAP_SYS_ADMIN. In a virtual machine they are the guest's.")
        .def("large_share", &Memory::large_share, Free(),
             "Share of the bytes that lie in pages of 2 MiB or 1 GiB now.");

    nb::class_<Ballast>(
        m, "Ballast",
        "Makes the next mapping's frames new ones: the kernel hands out first what was given back "
        "last. Takes frames and gives them back in random pieces, in random order.")
        .def(
            "__init__",
            [](Ballast* self, std::size_t bytes, Pages pages, const std::vector<int>& cpus,
               double kept, std::uint64_t seed) {
                const nb::gil_scoped_release release;
                new (self) Ballast(bytes, pages, cpus, kept, seed);
            },
            "bytes"_a, "pages"_a, "cpus"_a, "kept"_a, "seed"_a,
            "A piece is a page, of small pages 1 to 512. A share `kept` of the pieces stays held "
            "until release(): with 0 the next mapping has runs of up to 4 MiB in random order, as "
            "on a node just freed; held while the next mapping is made, runs of the length of "
            "pieces, as on a node in use.")
        .def_prop_ro("held", &Ballast::held, "Bytes.")
        .def("release", &Ballast::release, Free(),
             "Gives back what was kept, in random order; a second time does nothing.");
}

}  // namespace pagelens
