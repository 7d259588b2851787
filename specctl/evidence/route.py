"""Evidence 3: the route. Which class is selected, which are hooked, which one spoke. Pure.

This is the evidence the tool was made for: a patched file of the worker that does not run imports cleanly,
starts cleanly, and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specctl.evidence.model import Evidence, Expectation, Kind, Verdict

WORKER_FILES: Mapping[str, str] = {
    "EAGLEWorker": "sglang/srt/speculative/eagle_worker.py",
    "EAGLEWorkerV2": "sglang/srt/speculative/eagle_worker_v2.py",
}
_SHORT = {"EAGLEWorker": "V1", "EAGLEWorkerV2": "V2"}


def covered_workers(files: Mapping[str, str]) -> tuple[str, ...]:
    """The worker classes whose file is among a distribution's overlaid files."""
    return tuple(worker for worker, path in WORKER_FILES.items() if path in files)


def judge_route(
    expectation: Expectation, spoke: Sequence[str], hooked: Sequence[str] | None, *, where: str
) -> Evidence:
    """Compare the three.

    Args:
        expectation: with the predicted worker, its reasons and what the distribution covers.
        spoke: classes named by the markers of this invocation; empty when there is none.
        hooked: classes whose file on the host names the overlay's module; None when it was not looked at.
        where: what was read.
    """
    worker = expectation.worker
    why = "; ".join(expectation.reasons)
    expected = f"{worker or 'no speculation'}{f' ({why})' if why else ''}"

    def verdict(verdict: Verdict, code: str, seen: str, hint: str | None = None) -> Evidence:
        return Evidence(Kind.ROUTE, verdict, code, expected, seen, where, hint)

    if expectation.problems:
        seen = f"a server with these arguments refuses to start: {'; '.join(expectation.problems)}"
        return verdict(Verdict.FAIL, "route-refused", seen, "look at the arguments: specctl route")
    if expectation.threshold is None:
        return verdict(
            Verdict.PASS, "route-not-asked", "no threshold is configured, so no worker is expected to speak"
        )
    if worker is None:
        seen = "a threshold is configured, but these arguments select no speculative worker"
        return verdict(
            Verdict.FAIL, "route-no-speculation", seen, "set --speculative-algorithm, or drop the threshold"
        )
    covers = [w for w in expectation.covers if hooked is None or w in hooked]
    if worker not in covers:
        short = _SHORT.get(worker)
        label = f"{short}: {why}" if short and why else short or why
        only = f"only {' and '.join(covers)}" if covers else "no worker class at all"
        seen = (
            f"these arguments select {worker}{f' ({label})' if label else ''}, "
            f"and the installed overlay hooks {only}"
        )
        hint = (
            f"build with an overlay that hooks {worker}, or change the arguments: specctl route explains them"
        )
        return verdict(Verdict.FAIL, "route-not-covered", seen, hint)
    if not spoke:
        seen = "no marker of this invocation names a worker class"
        return verdict(Verdict.UNKNOWN, "route-unseen", seen, "see the marker evidence below")
    others = sorted(set(spoke) - {worker})
    if others:
        seen = f"{' and '.join(others)} runs, though these arguments select {worker}"
        hint = "the running process has other arguments or another environment: specctl restart, then verify"
        return verdict(Verdict.FAIL, "route-differs", seen, hint)
    return verdict(Verdict.PASS, "route-confirmed", f"{worker} spoke in the log, and its file is hooked")
