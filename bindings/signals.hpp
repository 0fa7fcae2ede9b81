#pragma once

#include <nanobind/nanobind.h>

namespace pagelens {

// Lets Ctrl-C end long work that has released the GIL.
inline void check_signals() {
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace pagelens
