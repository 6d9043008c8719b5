"""What the garbage collector has to look at again and again, for as long as a store in memory holds it."""

import gc

from shapes import loop, step

from conductorlite import Engine, VirtualClock, Workers

#: A task's row, and the documents that are its input and its output.
A_ROUND = 4


def test_a_round_in_memory_leaves_few_objects() -> None:
    """A line of the journal is none of them: it is a tuple of texts and numbers."""
    rounds, workers = 100, Workers()
    workers.task("step")(step)
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        definition = loop(rounds)
        engine.start(definition, {"x": 1}).result()
        gc.collect()
        before = len(gc.get_objects())
        run = engine.start(definition, {"x": 1})
        run.result()
        gc.collect()
        assert len(gc.get_objects()) - before <= A_ROUND * rounds + 100
        assert len(list(engine.history(run.workflow_id))) >= 4 * rounds
