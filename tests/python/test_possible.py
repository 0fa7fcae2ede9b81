"""What no machine can be is refused, with what is possible."""

import pytest
from machine_roles import INCLUSIVE_L3

from pagelens.errors import UsageError
from pagelens.machine import load_machine


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"cores.count": 10**11}, "cores.count = 100000000000: no machine has that; from 1 to 65536"),
        (
            {"ddr.latency": "31536000 s"},
            "ddr.latency = 3.1536e+07 s: no machine has that; from 10 ps to 1 ms",
        ),
        ({"ddr.bandwidth": "20 B/s"}, "ddr.bandwidth = 20 B/s: no machine has that"),
        ({"cores.frequency": "2.9 Hz"}, "cores.frequency = 2.9e-09 GHz: no machine has that"),
        ({"l2.size": "64 GiB"}, "l2.size = 64 GiB is more than ddr.size = "),
        ({"l3.latency": "1 ns"}, "l3.latency = 1 ns is not more than l2.latency = "),
        ({"page_walk.walk_cycles": 10**7}, "page_walk.walk_cycles = 10000000: no machine has that"),
        ({"l1.size": "4 MiB"}, "l1.size = 4 MiB is more than l2.size = 256 KiB"),
    ],
)
def test_what_no_machine_can_be_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_machine(INCLUSIVE_L3).with_values(values)
    assert said in str(refused.value)
