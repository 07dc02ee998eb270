"""Records: the routes of the audit and of receipts."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def records_part(serving: "Serving") -> "Part":
    """The routes of the audit and of receipts."""
    from coilclaw.features.records.chain import ChainWatch
    from coilclaw.features.records.routes.audit import AuditRoutes
    from coilclaw.features.records.routes.receipts import ReceiptGateway, ReceiptRoutes
    from coilclaw.ledger.live_verify import verify_live
    from coilclaw.ledger.verify import Report
    from coilclaw.server.part import Part

    runtime = serving.runtime

    def verify() -> Report:
        return verify_live(runtime.config.memory.path, runtime.config.receipts.path, runtime.signing_key)

    return Part(
        controllers=(AuditRoutes, ReceiptRoutes, ReceiptGateway),
        given={"chain_watch": ChainWatch(verify, runtime.clock)},
    )


FEATURE = Feature(part=records_part)
