// A job of several processes, which differ, as one program: its threads are those of all processes,
// one process after the other, and its pages lie in an address space for each.
//
// Copies of one process need no job: a replay runs them in lockstep by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/accesses/meeting_places.hpp"
#include "core/accesses/program.hpp"

namespace pagelens {

// A process, and what its numbers are in the job.
struct Process {
    std::shared_ptr<const Program> program;
    std::vector<std::uint16_t> objects;  // [object]
    std::vector<std::uint32_t> phases;   // [phase]
    // [index of a page of the page cache] Processes that read the same file have the same pages.
    std::vector<std::uint32_t> files;
    KnownPlaces places{};           // where it meets some of the others
    std::uint32_t first_round = 0;  // it begins when all others have met so often
    // [thread] The job has the process's threads 0 to the largest of these. Threads with one number
    // are one thread of the job. Empty: each is a thread of its own.
    std::vector<std::uint16_t> threads{};
};

// Between two meetings, the process that has moved the fewest lines goes on, so equal processes run
// in lockstep. Processes meet where a phase begins, if the job has several phases: then all of them
// must begin the same phases in the same order. They also meet where `meeting` processes do
// (OpKind::meet); 0: nowhere. Where an op has a packed Meeting, a process comes to a place or waits
// for others there. One that has ended keeps nobody waiting.
//
// A page of a file that processes read, or write through a shared mapping, is one page of the job
// if it has one address in each of them. It is translated as a page of the process that comes
// first. The kernel is taken to have cleared it before.
//
// Throws std::invalid_argument if there is no process, if a number is missing or too large, or if
// the job has more threads than an op can name.
std::unique_ptr<Program> job_of(std::vector<Process> processes, unsigned objects, unsigned phases,
                                std::uint64_t meeting = 0);

}  // namespace pagelens
