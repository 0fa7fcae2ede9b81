// The interposer's pool for blocks that are asked for before the allocator is known.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "hooks/bootstrap_pool.h"

TEST_CASE("bootstrap pool: blocks are aligned, zeroed, apart and know their size") {
    const auto pool = std::make_unique<bootstrap_pool>();
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
    for (const std::size_t alignment : {0, 8, 16, 32, 64, 4096})
        for (const std::size_t size : {0, 1, 15, 16, 17, 100}) {
            auto* block = static_cast<unsigned char*>(pool_take(pool.get(), alignment, size));
            REQUIRE(block != nullptr);
            CHECK(reinterpret_cast<std::uintptr_t>(block) % (alignment < 16 ? 16 : alignment) == 0);
            CHECK(pool_owns(pool.get(), block));
            for (std::size_t i = 0; i < size; ++i) CHECK(block[i] == 0);
            for (std::size_t i = 0; i < size; ++i) block[i] = 0xff;
            blocks.emplace_back(block, size);
        }
    for (const auto& [block, size] : blocks) CHECK(pool_block_size(block) == size);
}

TEST_CASE("bootstrap pool: what does not fit is refused, the rest still fits") {
    const auto pool = std::make_unique<bootstrap_pool>();
    CHECK(pool_take(pool.get(), 16, POOL_BYTES) == nullptr);
    CHECK(pool_take(pool.get(), 16, SIZE_MAX) == nullptr);
    CHECK(pool_take(pool.get(), std::size_t{1} << 63, 1) == nullptr);
    auto* whole = static_cast<unsigned char*>(pool_take(pool.get(), 16, POOL_BYTES - 32));
    REQUIRE(whole != nullptr);
    CHECK(pool_owns(pool.get(), whole + POOL_BYTES - 33));
    CHECK(pool_take(pool.get(), 16, 0) == nullptr);
}

TEST_CASE("bootstrap pool: foreign pointers are not its own") {
    const auto pool = std::make_unique<bootstrap_pool>();
    const auto at = [&pool](std::uintptr_t offset) {
        return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(pool->bytes) +
                                             offset);
    };
    CHECK(!pool_owns(pool.get(), nullptr));
    CHECK(!pool_owns(pool.get(), at(std::uintptr_t{0} - 1)));
    CHECK(pool_owns(pool.get(), at(0)));
    CHECK(!pool_owns(pool.get(), at(POOL_BYTES)));
}

TEST_CASE("bootstrap pool: threads never share a block") {
    const auto pool = std::make_unique<bootstrap_pool>();
    std::vector<std::thread> threads;
    std::vector<std::vector<std::uint64_t*>> blocks(4);
    for (std::uint64_t mark = 1; auto& mine : blocks)
        threads.emplace_back([&pool, &mine, value = mark++] {
            while (void* block = pool_take(pool.get(), 0, sizeof(std::uint64_t))) {
                mine.push_back(static_cast<std::uint64_t*>(block));
                *mine.back() = value;
            }
        });
    for (auto& thread : threads) thread.join();
    for (std::uint64_t mark = 1; const auto& mine : blocks) {
        for (const std::uint64_t* block : mine) CHECK(*block == mark);
        ++mark;
    }
}
