"""plan_update: the plan as the owner reads it at a terminal."""

from coilclaw.tools.plan import PlannedStep, plan_lines


def steps(*states):
    return [PlannedStep(title=f"step {number}", state=state) for number, state in enumerate(states, 1)]


def test_each_step_has_its_sign():
    assert plan_lines(steps("done", "dropped", "doing", "todo"), 6) == [
        "✓ step 1", "✗ step 2", "▸ step 3", "· step 4",
    ]  # fmt: skip


def test_of_a_long_plan_the_steps_around_the_present_one_are_shown():
    for done in range(13):
        shown = plan_lines(steps(*["done"] * done, *["todo"] * (12 - done)), 6)
        assert len(shown) <= 6
        assert done == 12 or f"· step {done + 1}" in shown
    assert plan_lines(steps(*["done"] * 5, "doing", *["todo"] * 6), 6) == [
        "… 4 before", "✓ step 5", "▸ step 6", "· step 7", "· step 8", "… 4 more",
    ]  # fmt: skip


def test_a_title_stays_on_its_line():
    assert plan_lines([PlannedStep(title="look\n✓ all done")]) == ["· look⟨U+000A⟩✓ all done"]
