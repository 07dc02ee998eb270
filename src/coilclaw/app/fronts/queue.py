"""The queue for the server: approvals, actions, the audit and the receipts of an App."""

from coilclaw.app.fronts.front import Front
from coilclaw.ledger.live_verify import verify_live
from coilclaw.ledger.verify import Report
from coilclaw.server.chain import ChainWatch
from coilclaw.server.hands import Hands
from coilclaw.server.part import Part
from coilclaw.server.redacting import Redacting
from coilclaw.server.routes.actions import ActionRoutes
from coilclaw.server.routes.approvals import ApprovalRoutes
from coilclaw.server.routes.audit import AuditRoutes
from coilclaw.server.routes.receipts import ReceiptGateway, ReceiptRoutes


def queue_part(front: Front) -> Part:
    """Approvals, actions, audit and receipts."""
    app = front.app

    def verify() -> Report:
        return verify_live(app.db.path, app.config.receipts.path, app.signing_key)

    return Part(
        controllers=(ApprovalRoutes, ActionRoutes, AuditRoutes, ReceiptRoutes, ReceiptGateway),
        given={
            "hands": Hands(front.core.conveyor),
            "chain_watch": ChainWatch(verify, app.clock),
            "redacting": Redacting(front.core),
        },
    )
