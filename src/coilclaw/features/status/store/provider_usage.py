"""Usage by provider: the same counts as by model, grouped by who was asked."""

from coilclaw.store.tx import Tx
from coilclaw.store.usage import UsageRow, usage_row


def usage_by_provider(db: Tx, since: str) -> list[UsageRow]:
    """What was used from a moment on: one row for each provider and model, in the order of the providers."""
    rows = db.execute(
        "SELECT provider, model, count(*), sum(input_tokens), sum(output_tokens),"
        " sum(CASE WHEN estimated THEN input_tokens + output_tokens ELSE 0 END), sum(cached_tokens)"
        " FROM usage WHERE created_at >= ? GROUP BY provider, model ORDER BY provider, model",
        (since,),
    )
    return [usage_row(*row) for row in rows]
