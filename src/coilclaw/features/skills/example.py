"""The skill that `coilclaw skill new` writes: valid as it is, and every part explains itself."""

EXAMPLE = """---
name: {name}
description: Say in a sentence what this does and when to use it.
allowed-tools: file_list file_read artifact_put
metadata:
  coilclaw-intent: {name}
  coilclaw-triggers: {words}
  coilclaw-evidence: report
---

# {title}

## Preconditions

- tool: file_read
- The owner named the folder to look at.

## Steps

1. List the folder and read what is in it. Evidence: the receipts of the reads.
2. Write what you found with artifact_put, as `report`. Evidence: the artifact `report`.

## Failure modes

- A file cannot be read: leave it out and say so in the report.

## Rollback

Nothing is changed, so there is nothing to take back.
"""


def example(name: str) -> str:
    """A new skill of that name."""
    words = name.replace("-", " ")
    return EXAMPLE.format(name=name, words=words, title=words.capitalize())
