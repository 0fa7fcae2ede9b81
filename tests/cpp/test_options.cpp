// The plugin's arguments: read as QEMU hands them over, and handed on to programs that it executes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "tracer/options.hpp"

using namespace pagelens;

TEST_CASE("arguments are read, unknown ones and wrong numbers refused") {
    const char* arguments[] = {"output=a.trace", "skip=12", "region=solve=1"};
    const Options options = parse_options(3, arguments);
    CHECK(options.output == "a.trace");
    CHECK(options.skip == 12);
    CHECK(options.region == "solve=1");
    for (const char* wrong : {"nonsense=1", "skip=-1", "skip=1x", "skip="}) {
        const char* words[] = {"output=a", wrong};
        CHECK_THROWS_AS(static_cast<void>(parse_options(2, words)), std::invalid_argument);
    }
    CHECK_THROWS_AS(static_cast<void>(parse_options(0, nullptr)), std::invalid_argument);
}

TEST_CASE("for a child they are written so that QEMU splits them at the right commas") {
    Options options;
    options.plugin = "tracer.so";
    options.output = "a,b.trace";
    options.accesses = 7;
    const std::string argument = plugin_argument(options);
    CHECK(argument.starts_with("file=tracer.so,"));
    CHECK(argument.find("output=a,,b.trace") != std::string::npos);
    CHECK(argument.find("accesses=7") != std::string::npos);
    CHECK(argument.find("region=") == std::string::npos);
}

TEST_CASE("each program of a process has a name of its own") {
    const std::string id = std::to_string(::getpid());
    CHECK(with_process_id("a.trace", 2) == "a.trace");
    CHECK(with_process_id("a.%p.trace", 1) == "a." + id + ".trace");
    CHECK(with_process_id("%p/%p", 3) == id + "-3/" + id + "-3");
}
