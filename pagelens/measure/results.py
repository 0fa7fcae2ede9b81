"""The results of a measurement: a distribution over page maps for each page size and point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pagelens.ensemble.run import Progress
from pagelens.host.load import MOST_FOREIGN, MOST_STOLEN
from pagelens.machine import Machine
from pagelens.measure.experiment import Experiment, Model
from pagelens.measure.pages import PageSize
from pagelens.measure.predict import predicted_seconds
from pagelens.measure.summary import Summary, summarise, unusual
from pagelens.measure.trials import Point, Trial
from pagelens.statistics import pearson, spearman

Floats = NDArray[np.float64]
FEWEST_CORRELATED = 8  # trials
FEWEST_PREEMPTIONS = 10.0  # more than usual, in a visit
LEAST_LARGE = 0.02  # of the memory


@dataclass(frozen=True)
class Outlier:
    """A trial far from the others. `cause` names what else was unusual about it, or is empty."""

    trial: int
    value: float
    cause: str


@dataclass(frozen=True)
class Prediction:
    """The prediction for each trial. Correlations are None for few trials, or without variation."""

    values: tuple[float, ...]  # the value of each trial
    pearson: float | None
    spearman: float | None


@dataclass(frozen=True)
class Result:
    """A point on pages of one size. `values` has each trial's best repetition."""

    page: PageSize
    point: Point
    values: tuple[float, ...]
    summary: Summary
    outliers: tuple[Outlier, ...]
    counters: Mapping[str, float | None]  # correlation of each with the time, over trials
    prediction: Prediction | None


@dataclass(frozen=True)
class Measured:
    """All results of a measurement."""

    plan: Experiment
    trials: Sequence[Trial] = field(repr=False)
    results: Sequence[Result]
    machine: Machine | None  # the machine of the prediction
    interrupted: bool

    def of_page(self, page: PageSize) -> list[Trial]:
        """Return the trials on pages of one size, in order."""
        return [trial for trial in self.trials if trial.page is page]

    @property
    def pages(self) -> list[PageSize]:
        """The page sizes, in the order of the request."""
        return list(dict.fromkeys(trial.page for trial in self.trials))


def evaluate(
    plan: Experiment,
    trials: Sequence[Trial],
    machine: Machine,
    models: Sequence[Model | None],
    seed: int,
    interrupted: bool,
    progress: Progress = lambda done, total: None,
) -> Measured:
    """Compute summaries, outliers with their causes, and predictions if frames and machine are known."""
    by_page = {
        page: [trial for trial in trials if trial.page is page]
        for page in dict.fromkeys(trial.page for trial in trials)
    }
    results: list[Result] = []
    for of_page in by_page.values():
        for index, model in enumerate(models or [None] * len(plan.points)):
            results.append(_result(plan, index, of_page, machine, model, seed))
            progress(len(results), len(by_page) * len(plan.points))
    predicted = any(result.prediction is not None for result in results)
    return Measured(plan, trials, results, machine if predicted else None, interrupted)


def _result(
    plan: Experiment, index: int, trials: Sequence[Trial], machine: Machine, model: Model | None, seed: int
) -> Result:
    point, page = plan.points[index], trials[0].page
    shortest = np.array([[visit.seconds[index].min() for visit in trial.visits] for trial in trials])
    visits = plan.figure(point.amount, shortest)
    values = plan.figure(point.amount, shortest.min(axis=1))
    order = np.array([[visit.place for visit in trial.visits] for trial in trials])
    summary = summarise(visits, order, values, seed)
    prediction = None
    if model is not None and all(trial.frames.size for trial in trials):
        seconds = predicted_seconds(machine, model, page, [trial.frames for trial in trials], seed)
        modelled = plan.figure(model.amount, seconds)
        many = len(trials) >= FEWEST_CORRELATED
        prediction = Prediction(
            tuple(modelled.tolist()),
            pearson(modelled, values) if many else None,
            spearman(modelled, values) if many else None,
        )
    counters = _counters(trials, index)
    counted_visit = shortest.argmin(axis=1)  # what an outlier's value is of
    evidence = _evidence(trials, counted_visit) + [
        (name, column, 0.0) for name, column in counters.items() if np.isfinite(column).all()
    ]
    if prediction is not None:
        evidence.append(("the model, too", np.array(prediction.values), 0.0))
    return Result(
        page=page,
        point=point,
        values=tuple(values.tolist()),
        summary=summary,
        outliers=tuple(
            Outlier(trials[at].number, float(values[at]), unusual(at, evidence)) for at in summary.outliers
        ),
        counters={
            name: pearson(of_trials, shortest.min(axis=1))
            if len(trials) >= FEWEST_CORRELATED and np.isfinite(of_trials).all()
            else None
            for name, of_trials in counters.items()
        },
        prediction=prediction,
    )


def _counters(trials: Sequence[Trial], index: int) -> dict[str, Floats]:
    """Return a point's counters by name: the mean over each trial's visits, float64[trial]."""
    names = trials[0].visits[0].counters[index]
    return {
        name: np.array([np.mean([v.counters[index][name] for v in trial.visits]) for trial in trials])
        for name in names
    }


def _evidence(trials: Sequence[Trial], visits: NDArray[np.int64]) -> list[tuple[str, Floats, float]]:
    """Return what was noted of each trial's visit besides its times, and the least value that matters."""
    chosen = [trial.visits[int(at)] for trial, at in zip(trials, visits, strict=True)]
    columns = [
        ("foreign load", [v.load.foreign_cpus or 0.0 for v in chosen], MOST_FOREIGN),
        ("time stolen by the hypervisor", [v.load.stolen_cpus or 0.0 for v in chosen], MOST_STOLEN),
        ("preemptions", [float(v.load.preemptions) for v in chosen], FEWEST_PREEMPTIONS),
    ]
    if all(trial.large_share is not None for trial in trials):
        columns.append(("share of large pages", [trial.large_share or 0.0 for trial in trials], LEAST_LARGE))
    return [(name, np.array(values), least) for name, values, least in columns]
