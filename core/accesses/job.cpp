#include "core/accesses/job.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagelens {
namespace {

constexpr std::uint32_t none = ~0u;
constexpr std::uint32_t mixed = none - 1;
constexpr std::size_t most_threads = 1u << 12;  // that an op can name
constexpr std::size_t batch_ops = 1u << 12;
constexpr unsigned clock_shift = 12;  // below: the number of the process

bool shows_file(const Op& op) {
    return (op.kind() == OpKind::map_read || op.kind() == OpKind::map_write) && op.lines != 0;
}

// Returns for each page the index of the page of the page cache that it shows, `none` if it never
// shows one, `mixed` if it shows several, or has a frame of its own at times.
std::vector<std::uint32_t> files_of_pages(const Program& program) {
    std::vector<std::uint32_t> files(program.pages().size(), none);
    for_each_op(program, [&](const Op& op) {
        if (op.kind() == OpKind::map_write && op.lines == 0) files[op.page] = mixed;
        if (!shows_file(op)) return;
        const auto file = static_cast<std::uint32_t>(op.lines - 1);
        std::uint32_t& known = files[op.page];
        known = known == none || known == file ? file : mixed;
    });
    return files;
}

bool moves_lines(OpKind kind) {
    return kind == OpKind::fetch || kind == OpKind::write_back || kind == OpKind::stream_store;
}

// The place of a process in the job.
struct Member {
    Process process;
    std::vector<std::uint16_t> threads;  // [thread] the job's
    std::vector<std::uint32_t> pages;    // [page] the job's
    // [page] how many pages before it are the process's own, from `first_own` on in the job; one
    // entry more at the end.
    std::vector<std::uint32_t> own_before;
    std::uint32_t first_own = 0;
};

class Job final : public Program {
  public:
    Job(std::vector<Process> processes, unsigned objects, unsigned phases, std::uint64_t meeting)
        : objects_(objects), phases_(phases), meeting_(meeting) {
        if (processes.empty()) throw std::invalid_argument("processes: at least one");
        for (Process& process : processes) add(std::move(process));
        number_pages();
        sum_instructions();
        std::vector<const KnownPlaces*> known;
        for (const Member& member : members_) known.push_back(&member.process.places);
        places_.emplace(known);
    }

    [[nodiscard]] std::unique_ptr<Cursor> open() const override;
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return pages_; }
    [[nodiscard]] unsigned spaces() const override {
        return static_cast<unsigned>(members_.size());
    }
    [[nodiscard]] std::span<const VirtualRange> file_pages() const override { return file_pages_; }
    [[nodiscard]] std::span<const VirtualRange> advised_pages() const override {
        return advised_pages_;
    }
    [[nodiscard]] unsigned objects() const override { return objects_; }
    [[nodiscard]] unsigned phases() const override { return phases_; }
    [[nodiscard]] unsigned threads() const override { return threads_; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instructions_;
    }
    // Of each process by itself: what processes take from each other is not known.
    [[nodiscard]] std::vector<TakenLines> taken_lines() const override {
        std::vector<TakenLines> all;
        for (const Member& member : members_) {
            for (TakenLines one : member.process.program->taken_lines()) {
                one.phase = member.process.phases[one.phase];
                one.object = member.process.objects[one.object];
                one.from = member.threads[one.from];
                one.to = member.threads[one.to];
                if (one.from == one.to) continue;
                if (one.line != TakenLines::no_line)
                    one.line = member.pages[one.line / lines_per_page] * lines_per_page +
                               one.line % lines_per_page;
                all.push_back(one);
            }
        }
        return all;
    }

  private:
    class Merged;

    void add(Process process) {
        const Program& program = *process.program;
        if (process.objects.size() != program.objects() ||
            process.phases.size() != program.phases())
            throw std::invalid_argument("objects, phases: one number for each that a process has");
        const auto least = [](const auto& numbers, unsigned most) {
            return std::ranges::all_of(numbers, [most](auto number) { return number < most; });
        };
        if (!least(process.objects, objects_) || !least(process.phases, phases_))
            throw std::invalid_argument("objects, phases: a number is not below the job's count");
        Member member;
        member.threads = process.threads;
        if (member.threads.empty()) {
            for (unsigned thread = 0; thread < program.threads(); ++thread)
                member.threads.push_back(static_cast<std::uint16_t>(thread));
        } else if (member.threads.size() != program.threads()) {
            throw std::invalid_argument("threads: one number for each that a process has");
        }
        const unsigned first = threads_;
        threads_ += 1u + *std::ranges::max_element(member.threads);
        if (threads_ > most_threads)
            throw std::invalid_argument("processes: more than " + std::to_string(most_threads) +
                                        " threads in all; leave some out");
        for (std::uint16_t& thread : member.threads)
            thread = static_cast<std::uint16_t>(first + thread);
        member.process = std::move(process);
        members_.push_back(std::move(member));
    }

    // Gives the pages of files that processes share the first numbers, then each process's own.
    void number_pages() {
        std::map<const Program*, std::vector<std::uint32_t>> files;
        std::map<std::uint32_t, std::uint32_t> shared;  // by the job's page of the page cache
        for (std::size_t m = 0; m < members_.size(); ++m) {
            Member& member = members_[m];
            const Program& program = *member.process.program;
            auto [known, is_new] = files.try_emplace(&program);
            if (is_new) known->second = files_of_pages(program);
            const auto addresses = program.pages();
            member.pages.assign(addresses.size(), none);
            member.own_before.resize(addresses.size() + 1);
            for (std::size_t page = 0; page < addresses.size(); ++page) {
                const std::uint32_t file = known->second[page];
                member.own_before[page + 1] = member.own_before[page] + 1;
                if (file >= mixed) continue;
                if (file >= member.process.files.size())
                    throw std::invalid_argument("files: one number for each page of a file");
                --member.own_before[page + 1];
                const auto next = static_cast<std::uint32_t>(pages_.size());
                const auto [place, first] = shared.try_emplace(member.process.files[file], next);
                if (first) pages_.push_back(in_space(addresses[page], m));
                member.pages[page] = place->second;
            }
        }
        for (std::size_t m = 0; m < members_.size(); ++m) {
            Member& member = members_[m];
            const Program& program = *member.process.program;
            member.first_own = static_cast<std::uint32_t>(pages_.size());
            if (pages_.size() + member.own_before.back() >= mixed)
                throw std::invalid_argument("processes: more than 2^32 pages in all");
            for (std::size_t page = 0; page < member.pages.size(); ++page) {
                if (member.pages[page] != none) continue;
                member.pages[page] = static_cast<std::uint32_t>(pages_.size());
                pages_.push_back(in_space(program.pages()[page], m));
            }
            for (const VirtualRange& range : program.file_pages())
                file_pages_.push_back(in_space(range, m));
            for (const VirtualRange& range : program.advised_pages())
                advised_pages_.push_back(in_space(range, m));
        }
    }

    // Throws std::invalid_argument if the address has more bits than an address space.
    static VirtualPage in_space(VirtualPage page, std::size_t space) {
        if (page.raw() >> space_shift != 0)
            throw std::invalid_argument("a virtual address has more than 48 bits");
        return VirtualPage(page.raw() + (std::uint64_t{space} << space_shift));
    }

    static VirtualRange in_space(const VirtualRange& range, std::size_t space) {
        const VirtualPage last(range.end.raw() - 1);
        return {in_space(range.begin, space), VirtualPage(in_space(last, space).raw() + 1)};
    }

    void sum_instructions() {
        instructions_.resize(std::size_t{phases_} * threads_);
        for (const Member& member : members_) {
            const Program& program = *member.process.program;
            const auto counts = program.instructions();
            for (unsigned phase = 0; phase < program.phases(); ++phase)
                for (unsigned thread = 0; thread < program.threads(); ++thread)
                    instructions_[std::size_t{member.process.phases[phase]} * threads_ +
                                  member.threads[thread]] +=
                        counts[phase * program.threads() + thread];
        }
    }

    unsigned objects_, phases_, threads_ = 0;
    std::uint64_t meeting_;  // processes that meet where an op says so; 0: they do not
    std::vector<Member> members_;
    std::vector<VirtualPage> pages_;
    std::vector<VirtualRange> file_pages_, advised_pages_;
    std::vector<std::uint64_t> instructions_;
    std::optional<MeetingPlaces> places_;  // before anyone has come
};

// Merges the ops of the processes.
class Job::Merged final : public Cursor {
  public:
    explicit Merged(const Job& job)
        : job_(job), sources_(job.members_.size()), places_(*job.places_) {
        for (std::size_t m = 0; m < sources_.size(); ++m) {
            sources_[m].cursor = job.members_[m].process.program->open();
            // With a clock of 0; ascending numbers are a heap.
            (job.members_[m].process.first_round == 0 ? running_ : waiting_).push_back(m);
        }
    }

    std::span<const Op> next() override {
        batch_.clear();
        while (batch_.size() < batch_ops) {
            if (!running_.empty())
                step();
            else if (places_.waiting() > 0)
                places_.break_up([this](std::uint32_t process) { go_on(process, 0); });
            else if (!waiting_.empty())
                meet();
            else
                break;
        }
        return batch_;
    }
    [[nodiscard]] float done() const override {
        float sum = 0;
        for (const Source& source : sources_) sum += source.cursor->done();
        return sum / static_cast<float>(sources_.size());
    }

  private:
    struct Source {
        std::unique_ptr<Cursor> cursor;
        std::span<const Op> ops;
    };

    // The process that has moved the fewest lines does its next op.
    void step() {
        std::pop_heap(running_.begin(), running_.end(), std::greater<>());
        std::uint64_t& clock = running_.back();
        const std::size_t m = clock & ((1u << clock_shift) - 1);
        Source& source = sources_[m];
        if (source.ops.empty()) source.ops = source.cursor->next();
        if (source.ops.empty()) {  // it has ended
            const std::uint64_t now = clock >> clock_shift;
            running_.pop_back();
            places_.end(static_cast<std::uint32_t>(m),
                        [&](std::uint32_t process) { go_on(process, now); });
            return;
        }
        const Op op = source.ops.front();
        source.ops = source.ops.subspan(1);
        if (op.kind() == OpKind::phase) {
            if (job_.phases_ > 1) {
                next_phase_ = job_.members_[m].process.phases[op.page];
                return wait(m);
            }
        } else if (op.kind() == OpKind::meet) {
            if (is_of_some(op.lines)) return meet_some(m, unpacked(op.lines));
            if (job_.meeting_ != 0 && processes_of(op.lines) == job_.meeting_) return wait(m);
        } else {
            emit(op, job_.members_[m]);
        }
        clock += cost(op) << clock_shift;
        std::push_heap(running_.begin(), running_.end(), std::greater<>());
    }

    // The process that stands last in `running_` does so.
    void meet_some(std::size_t m, Meeting meeting) {
        const std::uint64_t now = running_.back() >> clock_shift;
        running_.pop_back();
        const std::vector<std::uint32_t>& known = job_.members_[m].process.places.of_job;
        meeting.place = meeting.place < known.size() ? known[meeting.place] : nowhere;
        const auto process = static_cast<std::uint32_t>(m);
        if (meeting.comes)
            places_.come(process, meeting.place, meeting.turn,
                         [&](std::uint32_t other) { go_on(other, now); });
        if (!meeting.waits || places_.pass(process, meeting)) return go_on(process, now + 1);
        waits_since_.resize(sources_.size());
        waits_since_[m] = now;
    }

    // It has waited until the process that it waited for had moved so many lines.
    void go_on(std::uint32_t process, std::uint64_t lines) {
        if (process < waits_since_.size())
            lines = std::max(lines, std::exchange(waits_since_[process], 0));
        running_.push_back(lines << clock_shift | process);
        std::push_heap(running_.begin(), running_.end(), std::greater<>());
    }

    void wait(std::size_t m) {
        waiting_.push_back(m);
        running_.pop_back();
    }

    void meet() {
        if (next_phase_ != none) batch_.push_back(make_op(OpKind::phase, next_phase_, 0));
        next_phase_ = none;
        ++round_;
        std::ranges::sort(waiting_);
        std::erase_if(waiting_, [&](std::uint64_t m) {
            if (job_.members_[m].process.first_round > round_) return false;
            running_.push_back(m);
            return true;
        });
    }

    void emit(Op op, const Member& member) {
        op.thread = member.threads[op.thread] & 0xfff;
        op.object = member.process.objects[op.object];
        if (op.kind() == OpKind::unmap) {
            // The page cache keeps its pages, and others may show them.
            const std::uint32_t before = member.own_before[op.page];
            op.lines = member.own_before[op.page + op.lines] - before;
            op.page = member.first_own + before;
            if (op.lines == 0) return;
        } else {
            op.page = member.pages[op.page];
        }
        if (shows_file(op))
            op = make_op(OpKind::map_read, op.page,
                         std::uint64_t{member.process.files[op.lines - 1]} + 1, op.object,
                         op.thread);
        batch_.push_back(op);
    }

    // Returns the lines that the op moves, the kernel's included, or 1 if it moves none.
    static std::uint64_t cost(const Op& op) {
        if (op.kind() == OpKind::map_write) return lines_per_page;
        return moves_lines(op.kind()) ? static_cast<unsigned>(std::popcount(op.lines)) : 1;
    }

    const Job& job_;
    std::vector<Source> sources_;
    // A heap of clocks, the least first: lines moved since the last meeting, and the process.
    std::vector<std::uint64_t> running_;
    std::vector<std::uint64_t> waiting_;  // processes, for all others
    std::uint32_t round_ = 0;             // how often all have met
    MeetingPlaces places_;
    std::vector<std::uint64_t> waits_since_;  // [process] lines, while it waits at a place
    std::uint32_t next_phase_ = none;         // that begins when all have come
    std::vector<Op> batch_;
};

std::unique_ptr<Cursor> Job::open() const { return std::make_unique<Merged>(*this); }

}  // namespace

std::unique_ptr<Program> job_of(std::vector<Process> processes, unsigned objects, unsigned phases,
                                std::uint64_t meeting) {
    return std::make_unique<Job>(std::move(processes), objects, phases, meeting);
}

}  // namespace pagelens
