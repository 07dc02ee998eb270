"""Policy: the routes of the rules in force and of policy files."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def policy_part(serving: "Serving") -> "Part":
    """The routes of the policy; its files are files of the owner, so they need the part of owner files."""
    from coilclaw.features.policy.policies import Policies
    from coilclaw.features.policy.routes.policies import PoliciesController
    from coilclaw.features.policy.routes.policy import PolicyController
    from coilclaw.server.part import Part

    return Part(controllers=(PolicyController, PoliciesController), given={"policies": Policies(serving.runtime)})


FEATURE = Feature(part=policy_part)
