"""A new repository for the agent: what the owner brings stays as it is, and what is missing is added."""

from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.watcher.record import Record


def made_from(home, files):
    source = home.folder / "source"
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    commit = make_repository(home.app, source)
    record = Record(places_of(home.app.home.root).root)
    return lambda name: record.git.run("show", f"{commit}:{name}").decode()


def test_an_agent_goes_on_from_a_clone_of_its_earlier_repository(sample):
    mine = {
        "COMMS.md": "# COMMS\n\n## Directives\n\n- mine\n",
        "SYSTEM.md": "who I am\n",
        "infra/runner.py": "better()\n",
        "infra/watcher/loop.py": "improved()\n",
        ".gitignore": "/logs\n/mine\n",
    }
    shown = made_from(sample(), mine)
    assert {name: shown(name) for name in list(mine)[:4]} == dict(list(mine.items())[:4])
    assert "MUST" in shown("spec/SPEC_AGENT.md")
    ignored = shown(".gitignore").splitlines()
    assert (ignored.count("/logs"), "/mine" in ignored, "*.pyc" in ignored) == (1, True, True)


def test_a_folder_with_nothing_of_an_agent_gets_everything(sample):
    shown = made_from(sample(), {"src/a.py": "a\n", ".gitignore": "/build"})
    assert "## Directives" in shown("COMMS.md")
    assert "def main" in shown("infra/runner.py")
    assert "class Watcher" in shown("infra/watcher/loop.py")
    assert shown(".gitignore").splitlines()[:2] == ["/build", "/logs"]
