"""NUMA nodes: the cost of first touch, interleaving and where threads run, in twenty documents."""

from matplotlib.figure import Figure

from pagelens import _core
from pagelens.machine import load_machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.numa import Rate, rates
from pagelens.reproduce.programs.numa_cases import (
    CASES,
    GENOA,
    HASWELL,
    SNC2,
    TWO_SOCKETS,
    Rates,
    over_local,
    over_machines,
)
from pagelens.reproduce.study import Findings, Study

SYCL = "github.com/MarkusBuettner/sycl-benchmarks, README"
SCHEDULER = "K. Prateek Nayak, lkml 2022-02, Adjust NUMA imbalance for multiple LLCs v6"
INTERLEAVE = "G. Price, lkml 2024-02, cover letter of weighted interleave v5"
MIRROR = "github.com/ggml-org/llama.cpp/pull/27986"
TURIN = "Chips and Cheese, Evaluating Uniform Memory Access Mode on AMD's Turin"
HOST = "Machine files of two sockets give {low:.2f} to {high:.2f}."
NO_HOST = "The processor is not named. "
PCIE, PCIE_REMOTE = 12.15e9, 3.78e9  # of a P100, from host memory of its own socket and of the other one
MI210 = 28e9  # bytes a second, of copies to one such GPU
MOST_WEIGHTED, LEAST_WEIGHTED = 0.04, -0.06  # the ends of what weights gained


def run(context: StudyContext) -> Findings:
    """Run the loop of each case once, and compare."""
    found = rates(context, CASES)
    rows = (
        *_first_touch(found),
        *_threads(found),
        *_interleaved(found),
        *_slow_memory(found),
        *_page_cache(found),
        *_devices(),
        *_nodes(found),
    )
    return Findings(
        rows,
        (
            drawing(
                "numa",
                "Two sockets: pages on one node, and interleaved",
                "The rate of reads over that of pages at home. Modelled; dashes: published, on a host of two "
                "nodes that is not named.",
                lambda: _figure(found),
            ),
        ),
    )


def _rate(claim: str, source: str, published: float, obtained: Rate, remark: str = "") -> Row:
    """Compare a rate in GB/s."""
    rate = obtained.counted / 1e9
    return Row(
        claim,
        source,
        Kind.PREDICTED,
        value(f"{published:g} GB/s", bandwidth=published * 1e9),
        value(f"{rate:.0f} GB/s", bandwidth=obtained.counted),
        near(rate, published),
        remark,
    )


def _ratio(claim: str, source: str, published: float, obtained: float, remark: str = "") -> Row:
    return Row(
        claim,
        source,
        Kind.PREDICTED,
        value(f"{published:.2f}", ratio=published),
        value(f"{obtained:.2f}", ratio=obtained),
        near(obtained, published),
        remark,
    )


def _shown(claim: str, source: str, published: float, obtained: float, decided_by: str) -> Row:
    return Row(
        claim,
        source,
        Kind.SHOWN,
        value(f"{published:.2f}", ratio=published),
        value(f"{obtained:.2f}", ratio=obtained),
        decided_by=decided_by,
    )


def _first_touch(found: Rates) -> tuple[Row, ...]:
    milan, rome = "A copy on two EPYC 7543, NPS4", "A copy on two EPYC 7352, NPS4"
    one = "The model lets one node's memory give its full rate to the cores of all eight nodes."
    return (
        _rate(f"{milan}: one thread touched the input", SYCL, 54, found["milan serial"], one),
        _rate(f"{milan}: parallel first touch", SYCL, 200, found["milan parallel"]),
        _rate(
            f"{milan}: parallel first touch, then written by one thread",
            SYCL,
            190,
            found["milan rewritten"],
            "A negative control: who writes later does not move a page.",
        ),
        _ratio(
            f"{milan}: parallel over serial first touch",
            SYCL,
            200 / 54,
            found["milan parallel"].counted / found["milan serial"].counted,
            one,
        ),
        _rate(f"{rome}: one thread touched the input", SYCL, 35, found["rome serial"], one),
        _rate(
            f"{rome}: parallel first touch",
            SYCL,
            90,
            found["rome parallel"],
            "The machine file has the rate of another host with all channels; this host's DIMMs are not "
            "published.",
        ),
        _ratio(
            f"{rome}: parallel over serial first touch",
            SYCL,
            90 / 35,
            found["rome parallel"].counted / found["rome serial"].counted,
            "Both rates are too high, and that of all nodes is further off.",
        ),
        _shown(
            "Experts of a language model, NPS4: mapped file over reads by one thread",
            "github.com/ikawrakow/ik_llama.cpp/issues/1534",
            24 / 5,
            found["nps4 local"].counted / found["nps4 serial"].counted,
            "The processor and what its GPU computes are not published. With nothing on the GPU, memory "
            "alone gives as many times the rate as there are nodes.",
        ),
        _shown(
            "autonuma-benchmark, numa01_THREAD_ALLOC, two nodes: not balanced over balanced",
            "B. Wang, lkml 2024-03: 116 and 44.6 s",
            116 / 44.6,
            1 / over_machines(found, "serial")[0],
            "Balancing is left out here. Obtained is the most that it can gain, from all pages on one node "
            f"to all at home: {1 / over_machines(found, 'serial')[1]:.1f} to "
            f"{1 / over_machines(found, 'serial')[0]:.1f} on two sockets.",
        ),
    )


def _threads(found: Rates) -> tuple[Row, ...]:
    triad = "STREAM's triad on two Zen 3 sockets of 64 cores, 16 threads"
    spread, close, nps4 = found["nps1 spread"], found["nps1 close"], found["nps4 spread"]
    return (
        _rate(f"{triad} spread by the scheduler of 5.18, NPS1", SCHEDULER, 249, spread),
        _rate(f"{triad} spread by the scheduler of 5.18, NPS4", SCHEDULER, 259, nps4),
        _rate(
            f"{triad} by the scheduler before, NPS1",
            SCHEDULER,
            143,
            close,
            "That scheduler allows a quarter of a node's 128 processors more on one node, and so keeps all "
            "threads there.",
        ),
        _ratio(f"{triad}, NPS1: after over before", SCHEDULER, 249 / 143, spread.counted / close.counted),
        _ratio(
            f"{triad} spread: NPS4 over NPS1",
            SCHEDULER,
            259 / 249,
            nps4.counted / spread.counted,
            "A negative control: NPS makes no difference to threads that touch their own pages.",
        ),
        _shown(
            "STREAM's triad, a thread for each last-level cache, Zen 3: after over before",
            "M. Gorman, in the same thread: 151 and 564 GB/s",
            564 / 151,
            spread.counted / close.counted,
            "The size of the L3 is not published. 564 GB/s is more than two sockets of DDR4 give, so that "
            "part of the arrays of 512 MB stayed in the L3; without this it is 2 on any two sockets.",
        ),
    )


def _interleaved(found: Rates) -> tuple[Row, ...]:
    over, (low, high) = over_machines(found, "interleaved")[0], over_machines(found, "interleaved")
    serial = over_machines(found, "serial")
    return (
        _rate(
            "STREAM's triad on one of two GH200 modules, interleaved over both",
            "dnhkng, What 2x GH200 delivers",
            255,
            found["grace interleaved"],
            "From the rates of local and of remote memory in the same document.",
        ),
        _shown(
            "A language model on two nodes: interleaved over replicated",
            f"{MIRROR}: 4.93 and 7.89 tokens/s",
            4.93 / 7.89,
            over,
            NO_HOST + HOST.format(low=low, high=high),
        ),
        _shown(
            "A mixture of experts on two nodes: interleaved over replicated",
            f"{MIRROR}: 10.29 and 18.14 tokens/s",
            10.29 / 18.14,
            over,
            NO_HOST + HOST.format(low=low, high=high),
        ),
        _shown(
            "A language model on two nodes: pages where another run left them, over replicated",
            f"{MIRROR}: 2.88 and 7.89 tokens/s",
            2.88 / 7.89,
            serial[0],
            "Neither the processor nor where the pages were left is published. Obtained is for all on "
            "one node. " + HOST.format(low=serial[0], high=serial[1]),
        ),
        _shown(
            "A mixture of experts on two EPYC: NPS0 over replicated",
            "github.com/ikawrakow/ik_llama.cpp/pull/2396: 35.2 and 35.0 tokens/s",
            35.2 / 35.0,
            over_local(found, GENOA, "interleaved"),
            "What the GPU computes is not published; the more it computes, the nearer the ratio is to 1.",
        ),
    )


def _slow_memory(found: Rates) -> tuple[Row, ...]:
    local = found["cxl local"].counted
    equal, weighted = (found[f"cxl {name}"].counted / local - 1 for name in ("equal", "weighted"))
    slow, fast = found["knl slow"], found["knl fast"]
    knl = "STREAM's triad on a KNL in flat mode"
    where = "bitbucket.org/aokomoriuta, snippet n4qG5"
    rows = "In the model 98% of the lines open a row of DRAM anew (counted), and the banks decide."
    return (
        Row(
            "STREAM's triad, DDR5 and an expander of 16 lanes in turn, against DDR5 alone",
            INTERLEAVE,
            Kind.PREDICTED,
            value("-78%", kept=0.22),
            value(f"{equal:+.0%}", kept=1 + equal),
            near(1 + equal, 0.22),
            "DDR5 and expander are those of other hosts (machines/spr-8468-cxl.toml).",
        ),
        Row(
            "The same, by weights",
            INTERLEAVE,
            Kind.PREDICTED,
            value("-6% to +4%", gain=MOST_WEIGHTED),
            value(f"{weighted:+.0%}", gain=weighted),
            LEAST_WEIGHTED <= weighted <= MOST_WEIGHTED,
            "In the model both memories give their full rate at once, and latency costs the triad nothing.",
        ),
        _rate(f"{knl}, as it comes", where, 54.1, slow, rows),
        _rate(f"{knl}, numactl -p1", where, 298, fast),
        _ratio(f"{knl}: numactl -p1 over as it comes", where, 298 / 54.1, fast.counted / slow.counted, rows),
    )


def _page_cache(found: Rates) -> tuple[Row, ...]:
    gain = 1 / over_local(found, GENOA, "interleaved")
    return (
        _shown(
            "A language model on two EPYC 9175F: its file read by generation, over read by the prompt",
            "github.com/ggml-org/llama.cpp/issues/11744: 4.31 and 2.4 tokens/s",
            4.31 / 2.4,
            gain,
            "Which pages the prompt reads where is not published. Obtained is for pages in turn on the "
            "nodes; all on one node give 2 or more.",
        ),
        Row(
            "A language model on two E5: mapped and populated by one thread, over read by one thread",
            "github.com/ggml-org/llama.cpp/pull/1556: 190 and 170 ms",
            Kind.DERIVED,
            value(f"{190 / 170:.2f}", ratio=190 / 170),
            value("1.00", ratio=1.0),
            near(1.0, 190 / 170),
            "A negative control: both put all pages on that thread's node.",
        ),
        _shown(
            "A language model on a Threadripper of two nodes: pages where threads use them, over before",
            "github.com/ggml-org/llama.cpp/issues/13850",
            2.0,
            1 / over_machines(found, "serial")[1],
            "The rate between its two dies is not published. If it is half of a die's own memory or more, "
            "all pages on one node cost just 2.",
        ),
    )


def _devices() -> tuple[Row, ...]:
    """Compare what devices read of the other socket. The slower of two links decides in the model."""
    link, genoa = (float(load_machine(name).topology.bandwidth[0, 1]) for name in (HASWELL, GENOA))
    return (
        _shown(
            "Copies to a P100 from the other socket's memory, over those from its own",
            "github.com/mpicbg-scicomp/gearshifft/issues/82: 3.78 and 12.15 GB/s",
            PCIE_REMOTE / PCIE,
            min(PCIE, link) / PCIE,
            "How many reads of a device its socket keeps on their way to the other one is not published. The "
            "link alone, as cores use it, does not slow them.",
        ),
        Row(
            "Copies to an MI210 from the other socket's memory, over those from its own",
            "github.com/ROCm/rocm_bandwidth_test/issues/129: 28 GB/s both",
            Kind.DERIVED,
            value("1.00", ratio=1.0),
            value(f"{min(MI210, genoa) / MI210:.2f}", ratio=min(MI210, genoa) / MI210),
            near(min(MI210, genoa) / MI210, 1.0),
            "A negative control: PCIe is slower than the link between the sockets.",
        ),
    )


def _nodes(found: Rates) -> tuple[Row, ...]:
    def uniform(machine: str) -> float:
        return found[f"{machine} interleaved"].wait_s / found[f"{machine} local"].wait_s

    snc2, haswell = found["snc2 local"].counted / 1e9, load_machine(HASWELL).topology.bandwidth
    crossed = float((haswell[0, 1] + haswell[1, 0]) / (haswell[0, 0] + haswell[1, 1]))
    # MPOL_PREFERRED with one node, which hbw_malloc set for the whole heap; threads run on nodes 0 to 3.
    preferred = _core.NumaPolicy(_core.NumaMode.preferred, 1 << 4)
    threads, pages = range(4), range(16)  # a thread on each node with cores; any pages
    begins = {preferred.request(node, 0, page, 8)[0] for node in threads for page in pages}
    return (
        _ratio(
            "Latency of lines in turn on both sockets, over local: two EPYC 9575F, NPS0",
            f"{TURIN}: 220 and 130 ns",
            220 / 130,
            uniform(GENOA),
            "With the latencies of two EPYC 9654.",
        ),
        _ratio(
            "Latency of lines in turn on both sockets, over local: Broadwell",
            f"{TURIN}: 104.6 and 75.8 ns",
            104.6 / 75.8,
            uniform(HASWELL),
            "With the latencies of two E5-2680 v3.",
        ),
        Row(
            "Reads of all nodes' own memory at once, two 8269CY in SNC2",
            "plantegg, CPU and NUMA",
            Kind.DERIVED,
            value("233 GB/s", bandwidth=233e9),
            value(f"{snc2:.0f} GB/s", bandwidth=snc2 * 1e9),
            near(snc2, 233),
            f"From the nodes one at a time (machines/{SNC2}.toml); 225 GB/s without SNC.",
        ),
        Row(
            "Two E5-2695 v4 that read each other's memory at once, over their own",
            "github.com/eth-cscs/cscs-reframe-tests: 56 and 130 GB/s",
            Kind.DERIVED,
            value(f"{56 / 130:.2f}", ratio=56 / 130),
            value(f"{crossed:.2f}", ratio=crossed),
            near(crossed, 56 / 130),
            "Directions of a link add up; with the rates of two E5-2680 v3, which have the same links.",
        ),
        Row(
            "One policy for the heap, KNL in SNC4: pages of eight threads' own parts",
            "github.com/memkind/memkind/issues/36",
            Kind.DERIVED,
            value("all on node 4", nodes=1),
            value(f"all on node {min(begins)}" if len(begins) == 1 else "on several", nodes=len(begins)),
            begins == {4},
        ),
    )


def _figure(found: Rates) -> Figure:
    drawn = Figure((WIDTH, 2.4), layout="constrained")
    axes = drawn.add_subplot()
    for offset, placement, colour in ((-0.2, "serial", BASELINE), (0.2, "interleaved", OTHERS[1])):
        shares = [over_local(found, machine, placement) for machine in TWO_SOCKETS]
        places = [number + offset for number in range(len(shares))]
        label = {"serial": "all on one node", "interleaved": "interleaved"}[placement]
        axes.bar(places, shares, 0.38, color=colour, label=label)
    for published in (2.88 / 7.89, 4.93 / 7.89):
        axes.axhline(published, color=OTHERS[5], linestyle="--", linewidth=0.8)
    axes.set_xticks(range(len(TWO_SOCKETS)), TWO_SOCKETS)
    axes.set_ylabel("of the rate at home")
    axes.set_ylim(0, 1.05)
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "numa",
    "NUMA nodes: first touch, interleaving, threads",
    "twenty documents, each named in its row",
    run,
    "One machine file for each machine; pagelens/reproduce/programs/numa_cases.py states the conditions "
    "apart from the figures. Loops have ordinary stores, whose lines are fetched and not counted. Where a "
    "host is not named, what comes out is shown for two sockets of each of four processors.",
)
