"""The part of `pagelens site` that watches nodes over their age. It imports rooms only inside functions."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pagelens.cli.commands.site.job import DEFAULT_CONFIG, Config
from pagelens.cli.options import Json, Quiet, Seed
from pagelens.errors import Failure, UsageError
from pagelens.progress import progress_bar
from pagelens.units import parse_share

WATCHING = "Watching nodes"


EXAMPLES: Mapping[str, str] = {
    "measure": "measure --job 4711",
    "collect": "collect /shared/pagelens/spool",
    "status": "status nid00012",
    "calibrate": "calibrate --threshold 85%",
    "simulate": "simulate --nodes 1000 --job-hours 4",
    "serve": "serve --port 8017",
    "export": "export -o public/nodes",
    "metrics": "metrics -o /var/lib/prometheus/node-exporter/pagelens.prom",
}


def add_to(app: typer.Typer) -> None:
    """Add the commands to the group."""
    for command in (measure, collect, status, calibrate, simulate, serve, export, metrics):
        example = f"Example: pagelens site {EXAMPLES[command.__name__]}"
        app.command(epilog=example, rich_help_panel=WATCHING)(command)


def measure(
    config: Config = DEFAULT_CONFIG,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The node's name; by default SLURMD_NODENAME or the host's."),
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="ID", help="The job that has just ended; by default SLURM_JOB_ID.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Measure also where no check is due.")] = False,
) -> None:
    """Check this node if a check is due, and leave the record in its spool.

    Call it in the Epilog. The exit status is always 0, so that it never drains a node.
    """
    from pagelens.site import CheckRequest, measure_node, read_config

    settings = read_config(config)
    if not settings.measure.enabled and not force:
        typer.echo("measure: [measure] enabled is false", err=True)
        return
    name = node or os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]
    request = CheckRequest(
        node=name,
        spool=settings.node.spool,
        state=settings.node.state,
        job=os.environ.get("SLURM_JOB_ID", "") if job is None else job,
        kind=settings.node.kind,
        every_s=settings.measure.every_s,
        budget_s=settings.measure.budget_s,
        root=settings.node.root,
        force=force,
        memory=settings.measure.memory,
        forget_after_s=settings.prolog.forget_after_s,
    )
    try:
        typer.echo(measure_node(request))
    except Failure as error:  # the node's next job does not wait for it
        typer.echo(f"pagelens: {error}", err=True)


def collect(
    spools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER...|-]",
            help="Folders with nodes' spools; - reads records from standard input, one a line.",
        ),
    ] = None,
    config: Config = DEFAULT_CONFIG,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take the nodes' records into the history, each once, and judge every node.

    A record is deleted from its folder once the history has it.
    """
    from pagelens.cli.text.site import render_collected
    from pagelens.site import collect_lines, collect_spools, open_history, read_config, rule_of

    settings = read_config(config)
    rule = rule_of(settings.decision)
    with (
        open_history(settings.history.database, write=True) as history,
        progress_bar(quiet or json, "records", patience_s=2.0) as report,
    ):
        if spools == ["-"]:
            done = collect_lines(history, sys.stdin.buffer, rule, report=report)
        else:
            folders = [Path(each) for each in spools] if spools else [settings.node.spool]
            done = collect_spools(history, folders, rule, report=report)
    for line in done.invalid[:20]:
        typer.echo(f"pagelens: no record: {line}", err=True)
    if json:
        import json as writer

        typer.echo(writer.dumps({"new": done.new, "known": done.known, "invalid": len(done.invalid)}))
    elif not quiet:
        typer.echo(render_collected(done.new, done.known, len(done.invalid)))


def status(
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="One node, with its last checks.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only nodes in this state: ok, slow or unknown.")
    ] = None,
    json: Json = False,
) -> None:
    """Say which nodes are slow and why, or what is known of one node."""
    import json as writer

    from pagelens.cli.text.site import render_fleet, render_node
    from pagelens.site import fleet_status, node_status, open_history, read_config, rule_of

    settings = read_config(config)
    with open_history(settings.history.database) as history:
        rule = rule_of(settings.decision)
        if node is None:
            fleet = fleet_status(history, rule, state)
            typer.echo(writer.dumps(fleet.to_json()) if json else render_fleet(fleet), nl=json)
            return
        one = node_status(history, rule, node)
    typer.echo(writer.dumps(one.to_json()) if json else render_node(one), nl=json)


def calibrate(
    config: Config = DEFAULT_CONFIG,
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="The share of the peers' median that NERSC's rule asks for.")
    ] = "84.5%",
    seed: Seed = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say how many good nodes each rule would have drained here, and how many bad ones it would have kept."""
    import json as writer

    from pagelens.cli.text.site import render_calibration
    from pagelens.site import calibrate as try_rules
    from pagelens.site import open_history, read_config, rule_of

    settings = read_config(config)
    share = parse_share(threshold, "--threshold")
    with open_history(settings.history.database) as history, progress_bar(quiet, "rules") as report:
        found = try_rules(history, rule_of(settings.decision), share, seed, report)
    typer.echo(writer.dumps(found.to_json(), indent=1) if json else render_calibration(found), nl=json)


def simulate(
    nodes: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many nodes the site has.")
    ] = 9688,
    jobs: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="How many jobs run on each node.")
    ] = 100,
    draws: Annotated[
        int,
        typer.Option(
            min=2, max=10_000, metavar="N", help="How many times jobs are drawn, for the intervals."
        ),
    ] = 10,
    job_hours: Annotated[
        float, typer.Option(min=0.01, metavar="H", help="Hours that a job takes at full speed.")
    ] = 2.0,
    reboot_hours: Annotated[
        float, typer.Option(min=0, metavar="H", help="Hours that a reboot takes a node out of service.")
    ] = 0.5,
    sort_seconds: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds that sorting takes before a job.")
    ] = 3.0,
    memory_bound: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Share of the jobs' time that waits for memory."),
    ] = 1.0,
    seed: Seed = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare what policies would cost and gain a site in a year, on modelled nodes of Cori's kind."""
    import json as writer

    from pagelens.cli.text.site import render_simulated
    from pagelens.site import Inputs, Rule, simulate_site

    inputs = Inputs(
        nodes=nodes,
        jobs=jobs,
        draws=draws,
        job_hours=job_hours,
        reboot_hours=reboot_hours,
        sort_s=sort_seconds,
        memory_bound=memory_bound,
        seed=seed,
    )
    with progress_bar(quiet, "policies", patience_s=2.0) as report:
        found = simulate_site(inputs, Rule(), report)
    typer.echo(writer.dumps(found.to_json(), indent=1) if json else render_simulated(found), nl=json)


def serve(
    config: Config = DEFAULT_CONFIG,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The address to listen on; by default the configuration's, or 127.0.0.1."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, metavar="N", help="The port; by default the configuration's, or 8017."
        ),
    ] = None,
) -> None:
    """Show the fleet in a browser until Ctrl-C. The server only reads.

    It has no log-in. Where others may reach it, put a proxy with one before it.
    """
    from pagelens.site import read_config, rule_of, serve_page

    settings = read_config(config)
    page = settings.page
    address, number = host or page.host, port or page.port
    typer.echo(f"http://{address}:{number}/ (Ctrl-C ends it)", err=True)
    serve_page(settings.history.database, rule_of(settings.decision), page.title, address, number)


def export(
    config: Config = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write the page to this folder.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write all checks as a Parquet table.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the page of `serve` to a folder, or the history to a table."""
    from pagelens.site import export_checks, export_page, open_history, read_config, rule_of

    if output is None and parquet is None:
        raise UsageError("export: name what is written, --output DIR or --parquet FILE")
    settings = read_config(config)
    with open_history(settings.history.database) as history:
        if output is not None:
            with progress_bar(quiet, "nodes", patience_s=2.0) as report:
                nodes = export_page(history, rule_of(settings.decision), settings.page.title, output, report)
            if not quiet:
                typer.echo(f"{nodes:,} nodes: {output / 'index.html'}")
        if parquet is not None:
            checks = export_checks(history, parquet)
            if not quiet:
                typer.echo(f"{checks:,} checks: {parquet}")


def metrics(
    config: Config = DEFAULT_CONFIG,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The textfile; by default standard output."),
    ] = None,
    alerts: Annotated[bool, typer.Option("--alerts", help="Print the alert rules instead.")] = False,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Print Grafana's dashboard instead.")
    ] = False,
) -> None:
    """Write the fleet's figures for node_exporter's textfile collector."""
    from pagelens.site import fleet_status, metrics_text, monitoring_file, open_history, read_config, rule_of
    from pagelens.site import write_metrics as write

    if alerts or dashboard:
        typer.echo(monitoring_file("alerts.yml" if alerts else "dashboard.json"), nl=False)
        return
    settings = read_config(config)
    with open_history(settings.history.database) as history:
        fleet = fleet_status(history, rule_of(settings.decision))
    if output is None:
        typer.echo(metrics_text(fleet), nl=False)
    else:
        write(fleet, output)
