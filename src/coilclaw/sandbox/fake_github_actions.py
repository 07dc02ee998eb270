"""The part of the fake GitHub that workflows use: dispatches and runs, variables, deployments. Not for production."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.sandbox.fake_github import Account, FakeGitHub, GitHubReply
from coilclaw.sandbox.fake_github_repository import Refused
from coilclaw.sandbox.fake_github_shapes import environment_shape

TOKEN_ID = 41898282
"""The account that the token of a run acts as."""


class FakeActions(FakeGitHub):
    """A fake GitHub with Actions. It runs nothing by itself: `dispatched` says what was started, with which inputs."""

    def __init__(self, folder: Path, *, public_key: bytes = b"", port: int = 0) -> None:
        super().__init__(folder, public_key=public_key, port=port)
        self.permissions |= {"actions": "write", "actions_variables": "write"}
        self.accepted: list[tuple[str, str, JsonObject]] = []
        """Writes of this part that took effect."""
        self.variables: dict[str, str] = {}
        self.environments: dict[str, list[str] | None] = {}
        """The branches that may use each; None for any."""

    @property
    def dispatched(self) -> list[tuple[str, JsonObject]]:
        """Each workflow that was started, and its inputs."""
        found = (re.fullmatch(r"actions/workflows/([^/]+)/dispatches", path) for _, path, _ in self.accepted)
        bodies = [body for _, _, body in self.accepted]
        return [(match[1], body) for match, body in zip(found, bodies, strict=True) if match is not None]

    def run_token(self, permissions: Mapping[str, str]) -> str:
        """The token of a job of a run, with its permissions."""
        token = f"ghs_run{len(self.accounts)}"
        given = {name.replace("-", "_"): level for name, level in permissions.items()}
        account = Account(login="github-actions[bot]", id=TOKEN_ID, kind="Bot", permissions=given)
        self.accounts[token] = account
        return token

    def statuses(self) -> list[str]:
        """What was said of deployments, in order."""
        return [str(body.get("state")) for _, path, body in self.accepted if path.endswith("/statuses")]

    def _route(self, method: str, path: str, body: JsonObject, headers: Mapping[str, str]) -> GitHubReply:
        rest = path.partition("?")[0].removeprefix(f"/repos/{self.name}/")
        for pattern, need, answer in (
            (r"POST actions/workflows/[^/]+/dispatches", "actions", self._dispatch),
            (r"GET actions/workflows/[^/]+/runs", "actions", self._runs),
            (r"(GET|PATCH) actions/variables/\w+", "actions_variables", self._variable),
            (r"POST actions/variables", "actions_variables", self._new_variable),
            (r"POST deployments(/\d+/statuses)?", "deployments", self._deployment),
            (r"(GET|PUT) environments/\w+", "administration", self._environment),
            (r"(GET|POST) environments/\w+/deployment-branch-policies", "administration", self._policy),
        ):
            if re.fullmatch(pattern, f"{method} {rest}"):
                who = self.accounts.get(headers.get("authorization", "").removeprefix("Bearer "))
                if who is None:
                    raise Refused(401, "Bad credentials")
                self._must_be_allowed(who, method, need)
                reply = answer(method, rest, body)
                if method != "GET":
                    self.accepted.append((method, rest, body))
                return reply
        return super()._route(method, path, body, headers)

    def _dispatch(self, _: str, rest: str, body: JsonObject) -> GitHubReply:
        if body.get("ref") != "main" or not isinstance(body.get("inputs", {}), Mapping):
            raise Refused(422, "No ref found")
        return GitHubReply(status=204)

    def _runs(self, _: str, rest: str, __: JsonObject) -> GitHubReply:
        name = rest.split("/")[2]
        runs: list[Json] = []
        for number, (workflow, body) in enumerate(self.dispatched):
            inputs = body.get("inputs")
            job = inputs.get("job_id") if isinstance(inputs, Mapping) else ""
            if workflow == name:
                runs.append({"id": number, "display_title": f"{name.removesuffix('.yml')} {job}"})
        return GitHubReply(body={"total_count": len(runs), "workflow_runs": runs})

    def _variable(self, method: str, rest: str, body: JsonObject) -> GitHubReply:
        name = rest.rpartition("/")[2]
        if name not in self.variables:
            raise Refused(404, "Not Found")
        if method == "PATCH":
            self.variables[name] = str(body.get("value"))
            return GitHubReply(status=204)
        return GitHubReply(body={"name": name, "value": self.variables[name]})

    def _new_variable(self, _: str, __: str, body: JsonObject) -> GitHubReply:
        if str(body.get("name")) in self.variables:
            raise Refused(409, "Already exists")
        self.variables[str(body.get("name"))] = str(body.get("value"))
        return GitHubReply(status=201, body={})

    def _deployment(self, _: str, rest: str, body: JsonObject) -> GitHubReply:
        return GitHubReply(status=201, body={"id": 1 + len(self.accepted), **msgspec.to_builtins(body)})

    def _environment(self, method: str, rest: str, body: JsonObject) -> GitHubReply:
        name = rest.rpartition("/")[2]
        if method == "PUT":
            restricted = as_object(body.get("deployment_branch_policy")).get("custom_branch_policies") is True
            self.environments[name] = [] if restricted else None
        elif name not in self.environments:
            raise Refused(404, "Not Found")
        return GitHubReply(body=environment_shape(name, restricted=self.environments[name] is not None))

    def _policy(self, method: str, rest: str, body: JsonObject) -> GitHubReply:
        branches = self.environments.get(rest.split("/")[1])
        if branches is None:
            raise Refused(404, "Not Found")
        if method == "POST":
            branches.append(str(body.get("name")))
            return GitHubReply(body={"id": len(branches), "node_id": "x", "name": branches[-1]})
        found: list[Json] = [{"id": number, "node_id": "x", "name": name} for number, name in enumerate(branches, 1)]
        return GitHubReply(body={"total_count": len(found), "branch_policies": found})
