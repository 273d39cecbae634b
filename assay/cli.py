"""The command line: one small function a command. Imports stay inside, so that `--help` answers at once.

Exit codes: 0 done, 1 a step or a stated limit failed, 2 bad input or config, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys

STOPPED = 130
STOPPED_LINE = "stopped; the same command goes on from here"

try:
    from pathlib import Path
    from typing import TYPE_CHECKING, Annotated, NoReturn

    import typer

    from assay.core.errors import AssayError
except KeyboardInterrupt:  # Ctrl-C before there is a command to stop
    sys.stderr.write(f"assay: {STOPPED_LINE}\n")
    sys.exit(STOPPED)

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Compress a pretrained transformer, and prove what it kept.",
)
analyse = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Look into a variant before choosing what goes."
)
app.add_typer(analyse, name="analyse")
Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="The job, a YAML file.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, e.g. runs/quickstart.")]
Set = Annotated[list[str], typer.Option("--set", metavar="A.B=C", help="Override one setting; may be repeated.")]


@app.command()
def run(
    config: Config,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME of the config.")] = None,
    set_: Set = [],  # noqa: B006
    only: Annotated[str | None, typer.Option(metavar="VARIANT", help="Only this variant and what it needs.")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="A two-layer random model and 64 rows: a minute.")] = False,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How much training time an interruption may cost.")
    ] = 60.0,
) -> None:
    """Compress, examine and report. Start it again after an interruption: finished work is not redone."""
    from assay.core.config.job import tiny as shrink
    from assay.core.config.load import load_job

    job = load_job(config, set_)
    if tiny:
        job = shrink(job)
    folder = out or Path("runs") / (f"{job.name}-tiny" if tiny else job.name)
    _quiet_libraries(online=any(address.startswith("hf:") for address in job.addresses))
    from assay.run.job import run_job

    outcome = run_job(job, folder, only, tiny, checkpoint_seconds)
    _print_table(folder)
    typer.echo(f"report: {outcome.report}")
    for failure in outcome.failures:
        typer.echo(f"failed: {failure}", err=True)
    raise typer.Exit(1 if outcome.failures else 0)


@app.command()
def check(config: Config, set_: Set = []) -> None:  # noqa: B006
    """Everything `run` would check before it loads weights: config, model folder, data."""
    from assay.core.config.load import load_job
    from assay.run.prepare import prepare_job

    job = load_job(config, set_)
    source, data = prepare_job(job)
    sizes = f"{len(data.train)} training, {len(data.validation)} validation, {len(data.test)} test rows"
    typer.echo(f"{config}: fine. {source.family} model, {sizes}, {len(job.variants)} variants")


@app.command()
def status(run: Run) -> None:
    """How far each variant of a run has come, and whether it is being worked on."""
    from assay.run.lock import process_at_work
    from reports.collect import collect

    found, process = collect(run), process_at_work(run)
    ended = f"finished {found.finished}" if found.finished else "not finished; start the same command again to go on"
    typer.echo(f"{found.name}: started {found.started}, {f'process {process} is at work' if process else ended}")
    for variant in found.variants:
        steps = ", ".join(f"{step.step} {step.state}" for step in variant.steps) or "the model as given"
        typer.echo(f"{variant.name}: {variant.state} ({steps})" + (f": {variant.error}" if variant.error else ""))


@app.command()
def compare(
    run: Run,
    json: Annotated[bool, typer.Option("--json", help="One object a variant.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="The same as CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table as Markdown.")] = False,
) -> None:
    """The variants of a run side by side."""
    from reports.collect import collect
    from reports.compare import markdown as to_markdown
    from reports.compare import rows, to_csv, to_json

    if json:
        typer.echo(to_json(rows(collect(run))), nl=False)
    elif csv:
        typer.echo(to_csv(rows(collect(run))), nl=False)
    elif markdown:
        typer.echo(to_markdown(collect(run)), nl=False)
    else:
        _print_table(run)


@app.command()
def report(run: Run) -> None:
    """Write report.html of a run anew."""
    from reports.build import build

    typer.echo(f"report: {build(run)}")


@analyse.command()
def sensitivity(
    run: Run,
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="A variant, or a finished folder of its store.")],
    split: Annotated[str, typer.Option(metavar="validation|test|train", help="Which rows.")] = "validation",
    rows: Annotated[int, typer.Option(min=1, help="At most this many of them.")] = 500,
    groups: Annotated[int, typer.Option(min=0, help="Groups of neurons a layer; 0 leaves them out.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="One object a part.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="The same as CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table as Markdown.")] = False,
) -> None:
    """Accuracy and loss without each head, each layer, each group of neurons: table and heat maps."""
    _quiet_libraries(online=False)
    from assay.run.progress import Display
    from assay.run.sensitivity import analyse as look
    from reports import sensitivity as found
    from reports.compare import to_csv, to_json

    display = Display({})
    with display.task(f"sensitivity of {variant}") as progress:
        path = look(run, variant, split, rows, groups, progress)
    if json or csv:
        typer.echo((to_json if json else to_csv)(found.rows(path)), nl=False)
    elif markdown:
        typer.echo(found.markdown(path), nl=False)
    else:
        _console().print(found.table(path))
        typer.echo(f"figure: {path.with_suffix('.html')}")


@app.command("list")
def list_(kind: Annotated[str, typer.Argument(metavar="steps|probes|losses|families")]) -> None:
    """What there is of a kind."""
    from assay.core.listing import describe

    for name, text in describe(kind):
        typer.echo(f"{name}: {text}")


@app.command()
def doctor() -> None:
    """Versions, CPU features and what they mean, and known conflicts."""
    from assay.core.machine import doctor as examine

    findings = examine()
    for finding in findings:
        typer.echo(f"{finding.state:4}  {finding.name}: {finding.text}")
    raise typer.Exit(1 if any(finding.state == "fail" for finding in findings) else 0)


@app.command()
def schema() -> None:
    """JSON Schema of the config, with every step and probe."""
    import json

    from assay.core.config.schema import schema as describe

    typer.echo(json.dumps(describe(), indent=2))


def main() -> None:
    """Entry point: our own errors become one clear line and an exit code, everything else is a bug and shows itself."""
    try:
        app()
    except AssayError as error:
        _end(str(error), error.exit_code)
    except SystemExit as end:
        if end.code == STOPPED:  # typer ends silently after Ctrl-C
            _end(STOPPED_LINE, STOPPED)
        raise
    except KeyboardInterrupt:  # outside of a command
        _end(STOPPED_LINE, STOPPED)
    except OSError as error:
        from assay.run.failure import outside_error

        known = outside_error(error, Path.cwd())
        if known is None:
            raise
        _end(str(known), known.exit_code)


def _end(line: str, code: int) -> NoReturn:
    typer.echo(f"assay: {line}", err=True)
    sys.exit(code)


def _print_table(run: Path) -> None:
    from reports.collect import collect
    from reports.compare import table

    _console().print(table(collect(run)))


def _console() -> Console:
    """The terminal; wide where the output goes elsewhere."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=160)


def _quiet_libraries(online: bool) -> None:
    """Our display says what is going on; warnings of the libraries' internals would tear it. No library reaches for the
    network unless the config names a hub address."""
    import logging
    import os
    import warnings

    if not online:
        os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # its own level is set on import
    warnings.filterwarnings("ignore", category=FutureWarning)
    root = logging.getLogger()
    root.setLevel(logging.ERROR)  # onnxruntime's quantizer warns there, which would give it a handler of its own
    root.addHandler(logging.NullHandler())
    for name in ("transformers", "optimum"):
        logging.getLogger(name).setLevel(logging.ERROR)


if __name__ == "__main__":
    main()
