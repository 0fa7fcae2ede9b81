#include "tracer/call_sites.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace pagelens {

namespace {

// Frames of the runtime on top of those that make the site: operator new, its helpers, malloc.
constexpr std::size_t stack_depth = call_site_depth + 8;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), chained.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = hash + value + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

}  // namespace

CallSites::CallSites(Modules& modules, Define define)
    : modules_(modules), define_(std::move(define)) {}

std::uint32_t CallSites::number(std::span<const std::uint64_t> stack) {
    struct Frame {
        std::uint64_t address;
        Modules::Found where;
    };
    std::vector<Frame> frames;
    for (const std::uint64_t address : stack)
        // A return address may be the first byte after its function: the call lies before it.
        // Generated code lies in no module, and its address says nothing later.
        if (const auto where = modules_.find(address - 1)) frames.push_back({address, *where});

    const auto is_program = [](const Frame& f) { return f.where.role == ModuleRole::program; };
    auto frame = std::find_if(frames.begin(), frames.end(), is_program);
    auto end = std::find_if_not(frame, frames.end(), is_program);
    if (frame == end) frame = frames.begin(), end = frames.end();  // a runtime's own block

    CallSiteDefinition site;
    std::uint64_t hash = 0;
    for (; frame != end && site.return_addresses.size() < call_site_depth; ++frame) {
        site.return_addresses.push_back(frame->address);
        hash = mix(mix(hash, frame->where.module), frame->address);
    }
    if (site.return_addresses.empty()) return 0;

    const std::lock_guard lock(mutex_);
    const auto next = static_cast<std::uint32_t>(numbers_.size() + 1);
    const auto [known, is_new] = numbers_.try_emplace(hash, next);
    if (is_new) {
        site.id = next;
        define_(site);
    }
    return known->second;
}

std::uint32_t CallSiteCache::number(const ShadowStack& stack) {
    std::array<std::uint64_t, stack_depth> buffer;
    const std::span<const std::uint64_t> addresses(buffer.data(), stack.snapshot(buffer));
    std::uint64_t hash = modules_.generation() + 1;
    for (const std::uint64_t address : addresses) hash = mix(hash, address);
    Entry& entry = entries_[hash % entries_.size()];
    if (entry.hash != hash) {
        entry.site = sites_.number(addresses);
        entry.hash = hash;
    }
    return entry.site;
}

}  // namespace pagelens
