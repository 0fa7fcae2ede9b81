// The extension module of the measuring kernels, apart from _core so that only what measures loads
// them.
#include <nanobind/nanobind.h>

#include "bindings/probes/register.hpp"
#include "probes/failure.hpp"
#include "probes/stop.hpp"

namespace {

// An OSError with its errno, which chooses the subclass: PermissionError, and so on.
void translate(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const pagelens::probes::Failure& failure) {
        const nanobind::tuple arguments = nanobind::make_tuple(failure.error(), failure.what());
        PyErr_SetObject(PyExc_OSError, arguments.ptr());
    }
}

}  // namespace

NB_MODULE(_probes, m) {
    nanobind::set_leak_warnings(false);  // as in _core
    nanobind::register_exception_translator(translate);
    m.doc() =
        "The measuring kernels (C++); see docs/decisions/probes.md.\n\n"
        "Every call releases the GIL, pins its threads to the processors named and gives them "
        "their "
        "affinity back. Wrong arguments are a ValueError, what the operating system refuses an "
        "OSError with its errno; both say what to do in one line. A Memory serves one call at a "
        "time: others wait. `most_...` and `least_...` are the limits of arguments. Times are "
        "seconds by CLOCK_MONOTONIC_RAW.";
    nanobind::exception<pagelens::probes::Stopped>(m, "Stopped");
    m.def(
        "request_stop", &pagelens::probes::request_stop, nanobind::arg("stop"),
        "While true, calls in other threads end soon, and later ones at once, by Stopped: between "
        "repetitions, or in the midst of what takes long, but for a product by a BLAS.");
    pagelens::register_probe_memory(m);
    pagelens::register_stream(m);
    pagelens::register_latency(m);
    pagelens::register_branches(m);
    pagelens::register_issue(m);
    pagelens::register_l2sum_conflict(m);
    pagelens::register_programs(m);
    pagelens::register_file_loop(m);
}
