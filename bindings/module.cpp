// The extension module: one register_* line per core folder.
#include <nanobind/nanobind.h>

#include "bindings/register.hpp"

NB_MODULE(_core, m) {
    // An error's traceback may hold objects until the process ends: no leak, and not the user's
    // matter.
    nanobind::set_leak_warnings(false);
    m.doc() = "pagelens' inner loops (C++); see docs/architecture.md";
    pagelens::register_address(m);
    pagelens::register_conflicts(m);
    pagelens::register_accesses(m);
    pagelens::register_sweeps(m);
    pagelens::register_memory(m);
    pagelens::register_frames(m);
    pagelens::register_dram(m);
    pagelens::register_hierarchy(m);
    pagelens::register_rows_behind(m);
    pagelens::register_replay(m);
    pagelens::register_host(m);
    pagelens::register_layouts(m);
    pagelens::register_tlb(m);
    pagelens::register_pipeline(m);
    pagelens::register_node_replay(m);
}
