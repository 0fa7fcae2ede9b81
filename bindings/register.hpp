#pragma once

#include <nanobind/nanobind.h>

namespace pagelens {

void register_address(nanobind::module_& m);
void register_conflicts(nanobind::module_& m);
void register_accesses(nanobind::module_& m);
void register_sweeps(nanobind::module_& m);
void register_frames(nanobind::module_& m);
void register_memory(nanobind::module_& m);
void register_dram(nanobind::module_& m);
void register_hierarchy(nanobind::module_& m);
void register_replay(nanobind::module_& m);
void register_node_replay(nanobind::module_& m);
void register_rows_behind(nanobind::module_& m);
void register_host(nanobind::module_& m);
void register_layouts(nanobind::module_& m);
void register_tlb(nanobind::module_& m);
void register_pipeline(nanobind::module_& m);

}  // namespace pagelens
