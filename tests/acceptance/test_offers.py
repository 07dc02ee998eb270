"""What Tab offers stands on the owner's command line unquoted: only plain words are ever offered."""

from tests.acceptance.conftest import HomeAt

ODD = ["weekly;id>PWNED", "a|sh", "$(id)", "`id`", "a b", "--unsafe", "-x", "a&b", "a*", "~root", "{a,b}", "!!", "a#"]


def offered(home: HomeAt, *words: str) -> str:
    line = " ".join(("coilclaw", *words))
    env = {"_COILCLAW_COMPLETE": "bash_complete", "COMP_WORDS": f"{line} ", "COMP_CWORD": str(len(words) + 1)}
    return home.run(env=env).out


def test_a_name_that_a_shell_would_take_for_more_than_a_word_is_not_offered(home: HomeAt) -> None:
    for name in (*ODD, "plain-one"):
        (home.workspace / "sops" / name).mkdir(parents=True)
        (home.workspace / "sops" / name / "SOP.toml").write_text('name = "x"\n')
    shown = offered(home, "sop", "run")
    assert "plain-one" in shown
    assert [name for name in ODD if name in shown] == []
