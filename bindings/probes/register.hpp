// One function a file of this folder; module.cpp calls them.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"

namespace pagelens {

// Returns an array with a value for each repetition, as most results have them.
template <class Result>
Output<double> seconds_of(const Result& result) {
    return moved(result.seconds);
}

void register_probe_memory(nanobind::module_& m);
void register_stream(nanobind::module_& m);
void register_latency(nanobind::module_& m);
void register_branches(nanobind::module_& m);
void register_issue(nanobind::module_& m);
void register_l2sum_conflict(nanobind::module_& m);
void register_programs(nanobind::module_& m);
void register_file_loop(nanobind::module_& m);

}  // namespace pagelens
