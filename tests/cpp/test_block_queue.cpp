#include <doctest/doctest.h>

#include <thread>

#include "tracer/block_queue.hpp"

using namespace pagelens;

TEST_CASE("block queue: nobody waits for a writer that is stopped") {
    BlockQueue queue(1);
    Block* const first = queue.take();
    std::thread waits([&] { queue.put(queue.take()); });  // until there may be another block
    queue.grow(true);
    waits.join();
    CHECK(queue.wait());
    CHECK(queue.next() != first);
    queue.grow(false);
    queue.give_back(first);
    CHECK(queue.take() == first);
}
