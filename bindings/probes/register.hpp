// One function a file of this folder; module.cpp calls them.
#pragma once

#include <nanobind/nanobind.h>

namespace pagelens {

void register_probe_memory(nanobind::module_& m);
void register_stream(nanobind::module_& m);
void register_latency(nanobind::module_& m);
void register_l2sum_conflict(nanobind::module_& m);
void register_programs(nanobind::module_& m);

}  // namespace pagelens
